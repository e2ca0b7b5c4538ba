// What the functions spend on routes: judging and rendering a whole cluster at first, and again after one endpoint changed.

import { inOwnProcess, counted, medians, type Row, seconds } from './subject.ts';

export async function measureRender(progress: (what: string) => void): Promise<Row[]> {
  const rows: Row[] = [];
  for (const count of [1_000, 10_000]) {
    const took = await medians(
      async (turn) => (progress(`${counted(count)} routes, ${turn}`), inOwnProcess('render-sample.ts', `${count}`)),
    );
    const routes = `${counted(count)} routes x 3 endpoints`;
    rows.push(seconds(`render ${routes}`, took['first']), seconds(`render ${routes}, one endpoint changed`, took['again']));
    rows.push(seconds(`compose a node's router files of ${routes}`, took['compose']));
  }
  return rows;
}
