/** Selects the configs of `AWS::CloudFormation::Init` to apply, and their order. */

import { isPlainMap, states } from '#heat-bridge';

const { configError } = states;

const maxConfigs = 256;
/**
 * Maximum number of entries to which the selected config sets of one call may expand. References to
 * other sets count as entries.
 */
const maxEntries = 4 * maxConfigs;

/**
 * Key of the init metadata in a template. Error messages use it to name the location of a problem.
 */
export const initKey = 'AWS::CloudFormation::Init';

/**
 * Returns the names of the configs to apply, in order. A config that is selected twice is applied
 * twice.
 * @param asked - sets to apply, in order; default: the set `default`, or the config `config` if
 * there are no sets
 * @throws BridgeError ERR_CFN_INIT
 */
export function selectConfigs(
  init: Readonly<Record<string, unknown>>,
  asked: readonly string[] | undefined,
): readonly string[] {
  const { configSets: sets } = init;
  if (sets === undefined) {
    if (asked !== undefined)
      throw configError(
        initKey,
        'the call selects config sets, but the metadata of the instance has no `configSets`',
      );
    return ['config'];
  }
  if (!isPlainMap(sets))
    throw configError('configSets', 'must be a map from names of sets to lists of configs');
  const expansion: Expansion = { sets, names: [], chain: new Set(), entries: 0 };
  for (const set of asked ?? ['default']) {
    const before = expansion.names.length;
    expand(expansion, set.trim());
    if (expansion.names.length === before)
      throw configError('configSets', `the config set ${set} selects no configs`);
  }
  return expansion.names;
}

/** Progress of expanding config sets into a list of configs. */
interface Expansion {
  readonly sets: Readonly<Record<string, unknown>>;
  readonly names: string[];
  /** Names of the sets that enclose the current one, the outermost first. Used to detect cycles. */
  readonly chain: Set<string>;
  /** Number of entries of config sets that were processed so far. */
  entries: number;
}

function expand(expansion: Expansion, name: string): void {
  const { sets, names, chain } = expansion;
  if (chain.has(name)) {
    const path = [...chain, name].join(' -> ');
    throw configError('configSets', `config sets refer to each other in a cycle: ${path}`);
  }
  if (!Object.hasOwn(sets, name)) throw configError('configSets', `unknown config set ${name}`);
  chain.add(name);
  const set = sets[name];
  for (const entry of typeof set === 'string' ? [set] : listOf(set, name)) {
    // Count entries as well as configs. Sets that refer to other sets twice double the work at each
    // level, even if they contain no configs.
    expansion.entries += 1;
    if (expansion.entries > maxEntries) {
      throw configError(
        'configSets',
        `the selected config sets expand to more than ${maxEntries} entries`,
      );
    }
    if (typeof entry === 'string') names.push(entry);
    else if (isPlainMap(entry) && typeof entry.ConfigSet === 'string') {
      expand(expansion, entry.ConfigSet);
    } else {
      throw configError(
        `configSets: ${name}`,
        'must be a list of names of configs, or of maps {"ConfigSet": NAME}',
      );
    }
    if (names.length > maxConfigs) {
      throw configError('configSets', `the config sets select more than ${maxConfigs} configs`);
    }
  }
  chain.delete(name);
}

function listOf(set: unknown, name: string): readonly unknown[] {
  if (Array.isArray(set)) return set;
  throw configError(`configSets: ${name}`, 'must be a list');
}
