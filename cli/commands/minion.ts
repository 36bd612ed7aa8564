import type { Command } from 'commander';
import { createMinion } from '../../minion-protocol/index.ts';
import { parsePort } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { terminationSignal } from '../signals.ts';

interface MinionOptions {
  readonly master: string;
  readonly masterPort: number;
  readonly publishPort: number;
  readonly id: string;
  readonly stateDir: string;
}

/** `saltbridge minion`: the embedded minion as a process of its own. */
export function addMinionCommand(program: Command, _context: CommandContext): void {
  program
    .command('minion')
    .description('run a small minion, for trying things out')
    .option('--master <host>', 'the master', '127.0.0.1')
    .option('--master-port <n>', "the master's ret_port", parsePort, 4506)
    .option('--publish-port <n>', "the master's publish_port", parsePort, 4505)
    .requiredOption('--id <id>', "the minion's id")
    .requiredOption('--state-dir <dir>', 'where its keys are kept')
    .action(async ({ master, masterPort, publishPort, id, stateDir }: MinionOptions) => {
      const terminated = terminationSignal();
      const minion = await createMinion({
        id,
        master,
        requestPort: masterPort,
        publishPort,
        stateDirectory: stateDir,
      });
      await minion.start();
      await terminated;
      await minion.close();
    });
}
