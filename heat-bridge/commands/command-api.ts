/** The interface to commands. */

import type { Catalog } from './command-catalog.ts';
import { type CommandInfo, describeCommand } from './command-info.ts';
import type { CommandCaller, CommandHandle, CommandRequest } from './command-request.ts';
import type { CommandRunner } from './command-runner.ts';

/** Commands: what there is, and calls. */
export interface CommandApi {
  /** In the order of their names. */
  list(): readonly CommandInfo[];
  /** @throws BridgeError ERR_COMMAND_UNKNOWN */
  show(name: string): CommandInfo;
  /** See `Bridge.run`. */
  run(name: string, request: CommandRequest): Promise<CommandHandle>;
  /** See `Bridge.find`. */
  find(id: string, caller: CommandCaller): Promise<CommandHandle>;
}

export function createCommandApi(catalog: Catalog, runner: CommandRunner): CommandApi {
  return {
    list: () => catalog.list().map(describeCommand),
    show: (name) => describeCommand(catalog.get(name)),
    run: (name, request) => runner.run(name, request, { isCarried: true }),
    find: (id, caller) => runner.find(id, caller),
  };
}
