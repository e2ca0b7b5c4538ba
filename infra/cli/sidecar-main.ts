// The sidecar alone, one file for images that carry nothing else: `node sidecar.mjs sidecar --stream ...`.

import { Command } from 'commander';
import { RELEASE } from '../../shared/release.ts';
import { addSidecar, explainEnvironment } from './commands.ts';
import { runCommandLine } from './run-command-line.ts';

const program = new Command('headgate').description('The sidecar of Headgate').version(RELEASE);
addSidecar(program);
explainEnvironment(program);
await runCommandLine(program, process.argv);
