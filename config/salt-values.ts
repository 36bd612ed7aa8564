import type { WireMap, WireValue } from '#minion-protocol';
import type { OptionRow } from './option.ts';
import type { MasterConfig, SaltOptions } from './options.ts';
import { saltOptions } from './salt-options.ts';

const rows: readonly (readonly [member: string, row: OptionRow])[] = Object.entries(saltOptions);

/**
 * Returns the options that also exist in Salt, by their names in Salt. Secrets, users and rights of
 * users are not included.
 * @param leftOut - names of extensions. Their options are omitted
 */
export function saltValues(
  config: SaltOptions & Pick<MasterConfig, 'eauth' | 'saltgui'>,
  leftOut: readonly string[] = [],
): WireMap {
  // Options that SaltGUI requires, besides those in the option tables [salt/config/__init__.py].
  const values: WireMap = {
    syndic_master: 'masterofmasters',
    order_masters: false,
    cluster_id: null,
    cluster_peers: [],
    state_output: 'full',
    state_verbose: true,
    // Without this option, SaltGUI's page of templates fails.
    saltgui_templates: {},
    ...config.saltgui,
    token_expire: config.eauth.tokenExpire,
  };
  return { ...values, ...selected(config, leftOut, ({ isSecret = false }) => !isSecret) };
}

/**
 * Returns the options that minions may read, by their names in Salt. They describe the behaviour of
 * the master and of states. Secrets, paths and rights are not included.
 * @param leftOut - names of extensions whose options are omitted
 */
export function valuesForMinions(config: SaltOptions, leftOut: readonly string[] = []): WireMap {
  return selected(config, leftOut, ({ isForMinions = false }) => isForMinions);
}

/**
 * Options that Salt's configuration lacks unless a file sets them [salt/config/__init__.py
 * DEFAULT_MASTER_OPTS].
 */
const withoutDefault: ReadonlySet<string> = new Set([
  'autoreject_file',
  'autosign_file',
  'autosign_grains_dir',
  'autosign_timeout',
  'color',
  'fileserver_list_cache_time',
  'mine_get',
  'output',
  'peer_run',
  'presence_events',
  'rest_cherrypy',
  'rest_timeout',
  'transport_opts',
]);

/**
 * Options that templates may read in Salt, but not on this master. `config.get` fails for such an
 * option. Otherwise, it could return a grain or pillar value of the same name, although Salt would
 * return the option.
 */
export const withheldOptions: ReadonlySet<string> = new Set(
  rows
    .filter(([, { name, isForMinions = false }]) => !isForMinions && !withoutDefault.has(name))
    .map(([, { name }]) => name),
);

function selected(
  config: SaltOptions,
  leftOut: readonly string[],
  isSelected: (row: OptionRow) => boolean,
): WireMap {
  const values = new Map<string, unknown>(Object.entries(config));
  const isServed = ({ extension }: OptionRow): boolean =>
    extension === undefined || !leftOut.includes(extension);
  return Object.fromEntries(
    rows
      .filter(([, row]) => isServed(row) && isSelected(row))
      .map(([member, { name }]) => [name, toWire(values.get(member))]),
  );
}

function toWire(value: unknown): WireValue {
  if (Array.isArray(value)) return value.map(toWire);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toWire(item)]));
  }
  const isPlain = ['string', 'number', 'boolean'].includes(typeof value);
  // The values of options are values that a file can contain.
  return isPlain ? (value as string | number | boolean) : null;
}
