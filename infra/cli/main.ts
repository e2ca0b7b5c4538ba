// The command line: `headgate COMMAND`. Each command is a file in commands/ and loads only when it runs.

import { Command } from 'commander';
import { RELEASE } from '../../shared/release.ts';
import { addCommands } from './commands.ts';
import { runCommandLine } from './run-command-line.ts';

export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('headgate')
    .description('Kubernetes edge router and service proxy without a control plane that stays running')
    .version(RELEASE);
  await runCommandLine(addCommands(program), argv);
}
