// What the functions spend on services: judging and rendering a whole cluster; and what a node does: composing its rules of a whole cluster at first, and again after one service changed.

import { inOwnProcess, counted, medians, type Row, seconds } from './subject.ts';

export async function measureCompose(progress: (what: string) => void): Promise<Row[]> {
  const rows: Row[] = [];
  for (const count of [1_000, 5_000, 10_000]) {
    const took = await medians(
      async (turn) => (progress(`${counted(count)} services, ${turn}`), inOwnProcess('compose-sample.ts', `${count}`)),
    );
    const services = `${counted(count)} services x 5 endpoints`;
    rows.push(seconds(`render iptables of ${services}`, took['render']));
    rows.push(seconds(`compose iptables of ${services}`, took['first']), seconds(`the same, one service changed`, took['again']));
    rows.push(seconds(`print them for iptables-restore`, took['print']));
  }
  return rows;
}
