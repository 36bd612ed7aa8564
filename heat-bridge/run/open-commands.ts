/** The part of the bridge that runs commands. */
import type { ExtensionHost } from '../../master/index.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { addCommandRoutes } from '../http/command-routes.ts';
import type { BridgePart } from '../part.ts';
import { type CommandApi, createCommandApi } from './command-api.ts';
import { CommandRunner } from './command-runner.ts';
import { commandsForReactions } from './for-reactions.ts';
import type { RunQuotas } from './options.ts';
import { commandMethods } from './rpc.ts';

/** What it is opened with. */
export interface CommandOptions {
  readonly catalog: Catalog;
  readonly service: string;
  readonly quotas: RunQuotas;
}

/** The part, and what runs the steps of plans. */
interface CommandPart extends BridgePart<CommandApi> {
  readonly runner: CommandRunner;
}

export function openCommands(
  host: ExtensionHost,
  { catalog, service, quotas }: CommandOptions,
): CommandPart {
  const runner = new CommandRunner({ host, catalog, service, quotas });
  const api = createCommandApi(catalog, runner);
  return {
    api,
    runner,
    commands: commandsForReactions(runner),
    pillar: runner.secrets.pillar,
    rpc: commandMethods(api),
    routes: (app, doors) => addCommandRoutes(app, doors, { api, host }),
    close: () => runner.close(),
  };
}
