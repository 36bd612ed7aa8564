/** Creates the bridge with the extensions of `heat-bridge/` and `guests/`. */

import {
  type BridgeOptions,
  type CatalogEntryKind,
  type CommandDefinition,
  type CommandsOf,
  type CommandTypes,
  ComposedBridge,
  type CoreBridge,
  checkSections,
  loadCatalog as loadCatalogOf,
  type PlanDefinition,
  type PlansOf,
  type PlanTypes,
} from '#heat-bridge';
import type { DataApi } from './data-spaces/data-api.ts';
import type { CodeDefinition } from './deployments/code-catalog.ts';
import type { StacksApi } from './deployments/stacks-api.ts';
import { guestExtensions } from './guest-extensions.ts';
import type { MuranoDefinition } from './murano/murano-catalog.ts';
import { guestServices } from './services.ts';

/** Names of the bridge's extensions. */
export type BridgeExtensionName =
  | 'commands'
  | 'data-spaces'
  | 'deployments'
  | 'enrolment'
  | 'metadata-agent'
  | 'murano'
  | 'signals';

/**
 * Choice of extensions by name. `false` omits an extension. `true` adds it even without a section
 * in the configuration.
 */
type ChosenExtensions = Readonly<Partial<Record<BridgeExtensionName, boolean>>>;

/** Bridge of one master. Pass it to `createMaster` in `extensions`. */
export interface Bridge<C extends CommandTypes = CommandsOf<[]>, P extends PlanTypes = PlansOf<[]>>
  extends CoreBridge<C, P> {
  /**
   * API of stacks whose software deployments the bridge runs.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly stacks: StacksApi;
  /**
   * API of values that the minions of a stack write for each other.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly data: DataApi;
}

/**
 * Creates a bridge. Nothing is opened before its master starts.
 * @typeParam D - types of the commands. Default: derived from `commands`. For catalog files, use
 * the types that `saltbridge bridge types` generates.
 * @typeParam L - types of the plans. Default: derived from `plans`. For catalog files, use the
 * generated types.
 */
export function createBridge<
  const D extends readonly CommandDefinition[] = [],
  const L extends readonly PlanDefinition[] = [],
>(options: BridgeOptions<D, L, ChosenExtensions> = {}): Bridge<CommandsOf<D>, PlansOf<L>> {
  return new BridgeWithGuests(options, guestExtensions);
}

class BridgeWithGuests extends ComposedBridge implements Bridge<CommandTypes, PlanTypes> {
  get stacks(): StacksApi {
    return this.service(guestServices.stacks);
  }

  get data(): DataApi {
    return this.service(guestServices.data);
  }
}

/** Returns all errors under `saltbridge: bridge:` and in the catalog files that it names. */
export function checkBridgeOptions(
  config: Parameters<typeof checkSections>[0],
): ReturnType<typeof checkSections> {
  return checkSections(config, guestExtensions);
}

/** Commands, plans and other valid entries of catalog files, and the errors in the invalid ones. */
export interface LoadedCatalog
  extends Omit<Awaited<ReturnType<typeof loadCatalogOf>>, 'entriesOf'> {
  /** Code that software deployments may run. */
  readonly code: readonly CodeDefinition[];
  /** Entry points that execution plans of Murano may call. */
  readonly entryPoints: readonly MuranoDefinition[];
}

/**
 * Loads catalog files. For a directory, loads the files `*.yaml` and `*.yml` in it, sorted by name.
 * @param known - commands that the embedding program defines; steps of plans may use them
 * @throws BridgeError ERR_CATALOG if one of the paths cannot be read
 */
export async function loadCatalog(
  places: readonly string[],
  known: readonly CommandDefinition[] = [],
): Promise<LoadedCatalog> {
  const { codeEntries } = await import('./deployments/code-catalog.ts');
  const { muranoEntries } = await import('./murano/murano-catalog.ts');
  const kinds = [codeEntries, muranoEntries].map((kind) => ({
    key: kind.key,
    load: async (): Promise<CatalogEntryKind> => kind,
  }));
  const { entriesOf, ...loaded } = await loadCatalogOf(places, known, kinds);
  return { ...loaded, code: entriesOf(codeEntries), entryPoints: entriesOf(muranoEntries) };
}
