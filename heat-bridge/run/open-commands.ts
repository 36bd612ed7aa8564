/** The part of the bridge that runs commands. */
import path from 'node:path';
import type { ExtensionHost } from '../../master/index.ts';
import { Catalog } from '../catalog/catalog.ts';
import type { CommandDefinition } from '../catalog/definition.ts';
import { requireCatalog } from '../catalog/load.ts';
import { addCommandRoutes } from '../http/command-routes.ts';
import type { BridgePart } from '../part.ts';
import { type CommandApi, createCommandApi } from './command-api.ts';
import { CommandRunner } from './command-runner.ts';
import { commandMethods } from './rpc.ts';

/** What it is opened with. */
export interface CommandOptions {
  /** `saltbridge:bridge:catalog`: relative ones are told from the configuration's directory. */
  readonly places: readonly string[];
  /** Of the program. */
  readonly definitions: readonly CommandDefinition[];
  readonly service: string;
}

/** @throws BridgeError ERR_CATALOG */
export async function openCommands(
  host: ExtensionHost,
  { places, definitions, service }: CommandOptions,
): Promise<BridgePart<CommandApi>> {
  const base = path.dirname(host.config.confFile);
  const files = await requireCatalog(places.map((place) => path.resolve(base, place)));
  const catalog = new Catalog([...files, ...definitions]);
  const runner = new CommandRunner({ host, catalog, service });
  const api = createCommandApi(catalog, runner);
  return {
    api,
    pillar: runner.secrets.pillar,
    rpc: commandMethods(api),
    routes: (app, doors) => addCommandRoutes(app, doors, { api, host }),
    close: () => runner.close(),
  };
}
