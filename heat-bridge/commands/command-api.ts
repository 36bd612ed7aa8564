/** API of commands and their runs. */

import type { Catalog } from './command-catalog.ts';
import { type CommandInfo, describeCommand } from './command-info.ts';
import type { CommandCaller, CommandHandle, CommandRequest } from './command-request.ts';
import type { CommandRunner } from './command-runner.ts';

/** API of the catalog's commands and their runs. `Bridge` documents its methods. */
export type CommandApi = ReturnType<typeof createCommandApi>;

export function createCommandApi(catalog: Catalog, runner: CommandRunner) {
  return {
    /** Returns the commands, sorted by name. */
    list: (): readonly CommandInfo[] => catalog.list().map(describeCommand),
    /**
     * Returns one command.
     * @throws BridgeError ERR_COMMAND_UNKNOWN
     */
    show: (name: string): CommandInfo => describeCommand(catalog.get(name)),
    run: (name: string, request: CommandRequest): Promise<CommandHandle> =>
      runner.run(name, request, { isCarried: true }),
    find: (id: string, caller: CommandCaller): Promise<CommandHandle> => runner.find(id, caller),
  };
}
