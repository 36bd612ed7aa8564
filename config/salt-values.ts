import type { WireMap, WireValue } from '#minion-protocol';
import { type SaltOptions, saltOptions } from './option-table.ts';
import type { MasterConfig } from './options.ts';

/**
 * Options whose value nobody may see; `ext_pillar` has headers, remotes have passwords, and the
 * schedule has arguments.
 */
const secret: ReadonlySet<keyof SaltOptions> = new Set([
  'keyPass',
  'signingKeyPass',
  'extPillar',
  'gitfsPassword',
  'gitfsRemotes',
  'gitPillarPassword',
  'schedule',
]);

/** The options that Salt has, under its names; without secrets, and without users and their rights. */
export function saltValues(config: SaltOptions & Pick<MasterConfig, 'eauth' | 'saltgui'>): WireMap {
  // What SaltGUI takes for granted [salt/config/__init__.py].
  const values: WireMap = {
    syndic_master: 'masterofmasters',
    order_masters: false,
    cluster_id: null,
    cluster_peers: [],
    state_output: 'full',
    state_verbose: true,
    // Its page of templates fails where there is none of these.
    saltgui_templates: {},
    ...config.saltgui,
    token_expire: config.eauth.tokenExpire,
  };
  let member: keyof SaltOptions;
  for (member in saltOptions) {
    if (!secret.has(member)) values[saltOptions[member].name] = toWire(config[member]);
  }
  return values;
}

/**
 * What `pillar_opts` tells minions: how the master and states behave. No secrets, no paths, and
 * nothing of who may do what.
 */
const toldToMinions: readonly (keyof SaltOptions)[] = [
  'id',
  'masterId',
  'interface',
  'ipv6',
  'publishPort',
  'retPort',
  'transport',
  'hashType',
  'timeout',
  'gatherJobTimeout',
  'keepJobsSeconds',
  'zmqFiltering',
  'signPubMessages',
  'masterSignPubkey',
  'minionDataCache',
  'fileBufferSize',
  'fileRecv',
  'fileRecvMaxSize',
  'pillarenv',
  'pillarSourceMergingStrategy',
  'pillarMergeLists',
  'pillarIncludesOverrideSls',
  'pillarSafeRenderError',
  'pillarRaiseOnMissing',
  'extPillarFirst',
  'pillarOpts',
  'topFileMergingStrategy',
  'envOrder',
  'defaultTop',
  'renderer',
  'failhard',
  'stateTop',
  'stateTopSaltenv',
  'stateAutoOrder',
  'stateEvents',
  'stateAggregate',
  'jinjaEnv',
  'jinjaSlsEnv',
  'jinjaLstripBlocks',
  'jinjaTrimBlocks',
];

/** The options that minions may know, under Salt's names. */
export function valuesForMinions(config: SaltOptions): WireMap {
  return Object.fromEntries(
    toldToMinions.map((member) => [saltOptions[member].name, toWire(config[member])]),
  );
}

function toWire(value: unknown): WireValue {
  if (Array.isArray(value)) return value.map(toWire);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toWire(item)]));
  }
  const isPlain = ['string', 'number', 'boolean'].includes(typeof value);
  // Options are what a file can hold.
  return isPlain ? (value as string | number | boolean) : null;
}
