import { hostname } from 'node:os';
import path from 'node:path';
import {
  compileSearchPattern,
  type Nodegroups,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { clusterOptions } from './cluster-options.ts';
import { ConfigError, typeError } from './config-error.ts';
import { eventExports } from './event-export.ts';
import { extPillarEntries } from './ext-pillar.ts';
import { fileserverBackends } from './fileserver-backend.ts';
import { gitLimitDefaults, gitLimits, gitOptionRows } from './git-options.ts';
import { httpApi } from './http-api-options.ts';
import { httpQueryDefaults, httpQueryOptions } from './http-query-options.ts';
import { logLevels } from './log-level.ts';
import { mergeStrategies } from './merge-strategies.ts';
import {
  absolutePath,
  authVersion,
  duration,
  entriesOf,
  explainItems,
  explainSection,
  filePath,
  flag,
  integer,
  isSettings,
  listOf,
  number,
  numericText,
  type OptionKind,
  oneOf,
  passphrase,
  pathOrUrl,
  readSection,
  refuseValue,
  type SectionTable,
  type Setting,
  type Settings,
  sectionEntries,
  settingsOf,
  text,
  textList,
  toPlain,
} from './option-kinds.ts';
import type {
  AclOptions,
  AuditOptions,
  EauthOptions,
  EventRingOptions,
  ExpireOverride,
  FileRoots,
  LearnAction,
  Limits,
  MasterConfig,
  ReactorEntry,
  TenantDirectories,
} from './options.ts';
import { functionPermissions, publishPermissions } from './permissions.ts';
import { policyRules, signalRules } from './policy-rules.ts';
import { reactions } from './reactions.ts';
import { relayOptions } from './relay-options.ts';
import { scheduleMap } from './schedule.ts';
import { ssl, transportName, transportOpts } from './transport-options.ts';
import { rights } from './user-rights.ts';

// `saltbridge: audit:`

const auditTable: SectionTable<AuditOptions> = {
  enabled: { name: 'enabled', kind: flag },
  fileBytes: { name: 'file_bytes', kind: integer(4096, 2 ** 40) },
  keepFiles: { name: 'keep_files', kind: integer(1, 100_000) },
};

/** What is so where nothing is said. */
const auditDefaults: AuditOptions = {
  enabled: true,
  fileBytes: 64 * 1_048_576,
  keepFiles: 16,
};

/** A map; what is not in it has its default. */
const auditOptions: OptionKind<AuditOptions> = {
  expected:
    'a map with any of enabled (true or false), file_bytes (4096 or more), keep_files (1 or more)',
  isPath: false,
  parse: (value) => {
    const section = readSection(auditTable, value);
    return section && Object.freeze({ ...auditDefaults, ...section });
  },
  explain: (setting) => explainSection(auditTable, setting),
};

// `saltbridge: event_ring:`

const eventRingTable: SectionTable<EventRingOptions> = {
  entries: { name: 'entries', kind: integer(0, 10_000_000) },
  bytes: { name: 'bytes', kind: integer(65_536, 2 ** 40) },
};

const defaults: EventRingOptions = { entries: 10_000, bytes: 32 * 1_048_576 };

/** A map; what is not in it has its default. */
const eventRing: OptionKind<EventRingOptions> = {
  expected: 'a map with any of entries (0: none are kept), bytes (65536 or more)',
  isPath: false,
  parse: (value) => {
    const section = readSection(eventRingTable, value);
    return section && Object.freeze({ ...defaults, ...section });
  },
  explain: (setting) => explainSection(eventRingTable, setting),
};

/** How much is kept of the events; `undefined`: nothing. */
export function eventRingSize(
  config: Pick<MasterConfig, 'eventRing' | 'api' | 'restCherrypy'>,
): EventRingOptions | undefined {
  // Who reads events over HTTP is who loses a connection.
  const isServed = (config.api ?? config.restCherrypy)?.port !== undefined;
  const size = config.eventRing ?? (isServed ? defaults : undefined);
  return size === undefined || size.entries === 0 ? undefined : size;
}

// Options of the file server and of states.

const absolutePaths: OptionKind<readonly string[]> = {
  ...listOf(textList, absolutePath),
  expected: 'a list of absolute paths',
};

/** Every entry of a map that is refused, where all are of one kind. */
function explainEntries<T>(kind: OptionKind<T>, setting: Setting): ConfigError | undefined {
  const refused = settingsOf(setting).filter(([, { value }]) => kind.parse(value) === undefined);
  return ConfigError.of(refused.flatMap(([, inner]) => refuseValue(kind, inner).problems));
}

/** Absolute paths by environment; an environment without any is one with nothing in it. */
const fileRoots: OptionKind<FileRoots> = {
  expected: 'a map of environments to lists of absolute paths',
  isPath: false,
  parse: (value) => {
    const entries = entriesOf(value);
    if (entries === undefined) return undefined;
    const roots: [string, readonly string[]][] = [];
    for (const [env, places] of entries) {
      const list = absolutePaths.parse(places);
      if (list === undefined) return undefined;
      roots.push([env, list]);
    }
    return Object.fromEntries(roots);
  },
  explain: (setting) => explainEntries(absolutePaths, setting),
};

/** Regular expressions with Python's meaning. */
const patternList: OptionKind<readonly string[]> = {
  expected: 'a regular expression or a list of them, each of which can be read',
  isPath: false,
  parse: (value) => {
    const list = textList.parse(value);
    return list?.every(isPattern) ? list : undefined;
  },
  explain: (setting) => {
    const expected = 'a regular expression that can be read';
    const parse = (value: unknown): unknown => patternList.parse([value]);
    return explainItems({ expected, parse }, setting);
  },
};

/** Whatever a file can say, for minions to make sense of. */
const plainMap: OptionKind<WireMap> = {
  expected: 'a map',
  isPath: false,
  parse: (value) => {
    const entries = entriesOf(value);
    return entries && Object.fromEntries(entries.map(([key, inner]) => [key, plain(inner)]));
  },
};

/** True, false, or names of state modules. */
const flagOrNames: OptionKind<boolean | readonly string[]> = {
  expected: 'true, false, or a list of names',
  isPath: false,
  parse: (value) => flag.parse(value) ?? (Array.isArray(value) ? textList.parse(value) : undefined),
};

function isPattern(pattern: string): boolean {
  try {
    compileSearchPattern(pattern);
    return true;
  } catch {
    return false;
  }
}

function plain(value: unknown): WireValue {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return value;
  }
  if (Array.isArray(value)) return value.map(plain);
  const entries = entriesOf(value);
  return entries === undefined
    ? null
    : Object.fromEntries(entries.map(([key, inner]) => [key, plain(inner)]));
}

/** A list of actions. */
const learnActions = listOf(
  textList,
  oneOf<LearnAction>(['signal', 'publish', 'runner', 'mine', 'file-send', 'key']),
);

/** Names with a compound expression each, as text or as a list of words. */
const nodegroups: OptionKind<Nodegroups> = {
  expected: 'a map of names to expressions, each as text or as a list of words',
  isPath: false,
  parse: (value) => {
    const entries = nodegroupEntries(value)?.map(
      ([name, group]) => [name, definition(group)] as const,
    );
    const isComplete = entries?.every(([, group]) => group !== undefined);
    // An entry without a definition was refused in the line above.
    return isComplete ? (Object.fromEntries(entries ?? []) as Nodegroups) : undefined;
  },
  explain: (setting) => explainEntries(nodegroup, setting),
};

const nodegroup: OptionKind<string | readonly string[]> = {
  expected: 'an expression as text or as a list of words',
  isPath: false,
  parse: definition,
};

/** From a file, or from a program. */
function nodegroupEntries(value: unknown): [string, unknown][] | undefined {
  if (isSettings(value)) return [...value].map(([name, setting]) => [name, setting.value]);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? Object.entries(value) : undefined;
}

function definition(value: unknown): string | readonly string[] | undefined {
  if (typeof value === 'string') return value;
  const isList = Array.isArray(value) && value.every((word) => isWord(word));
  return isList ? value.map(String) : undefined;
}

function isWord(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number';
}

// `reactor`: files that react to events, by globs on tags.

/** As in Salt: a list of maps with one tag each. */
const reactor: OptionKind<readonly ReactorEntry[]> = {
  expected:
    'a list of maps, each with one tag and its files (salt://…, or absolute paths) as a list',
  isPath: false,
  parse: (value) => {
    const plain = toPlain(value);
    if (!Array.isArray(plain)) return undefined;
    const entries = plain.map(entryOf).filter((entry) => entry !== undefined);
    return entries.length === plain.length ? entries : undefined;
  },
  explain: (setting) => explainItems(reactorEntry, setting),
};

const reactorEntry: OptionKind<ReactorEntry> = {
  expected: 'a map of one tag to its files as a list',
  isPath: false,
  parse: (value) => entryOf(toPlain(value)),
  explain: (item) => {
    const [files, ...others] = settingsOf(item);
    if (files === undefined || files[0] === '' || others.length > 0) return undefined;
    if (Array.isArray(files[1].value)) return explainItems(reference, files[1]);
    return reference.parse(files[1].value) === undefined
      ? refuseValue(reference, files[1])
      : undefined;
  },
};

const reference: OptionKind<string> = {
  expected: 'a file: salt://…, or an absolute path',
  isPath: false,
  parse: (value) => (isReference(value) ? value : undefined),
};

/** The entries that a value of the option `reactor` means; `undefined`: none that it may have. */
export function readReactorEntries(value: unknown): readonly ReactorEntry[] | undefined {
  return reactor.parse(value);
}

/** From a file, or from a program. */
function entryOf(item: unknown): ReactorEntry | undefined {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return undefined;
  if ('tag' in item && 'sls' in item && Array.isArray(item.sls)) {
    return entry(String(item.tag), item.sls);
  }
  const [[tag, files] = ['', undefined], ...others] = Object.entries(item);
  return others.length > 0 ? undefined : entry(tag, files ?? []);
}

function entry(tag: string, files: unknown): ReactorEntry | undefined {
  const sls = [files].flat();
  const isComplete = tag !== '' && sls.every(isReference);
  return isComplete ? { tag, sls } : undefined;
}

function isReference(file: unknown): file is string {
  if (typeof file !== 'string' || /\p{C}/u.test(file)) return false;
  return path.isAbsolute(file) || /^salt:\/\/[^/]/.test(file);
}

/** An option, how it is called in files and how it is checked. */
interface OptionRow<T> {
  /** Its name in the section it stands in. */
  readonly name: string;
  readonly kind: OptionKind<T>;
  readonly default: T;
}

/** One row for each member of `T`. */
export type OptionTable<T> = { readonly [Name in keyof T]: OptionRow<T[Name]> };

/** Names of our own options, which stand under `saltbridge:`. */
export type OwnOptionName =
  | 'stateDir'
  | 'api'
  | 'audit'
  | 'bridge'
  | 'cluster'
  | 'eventExport'
  | 'exportBytes'
  | 'eventRing'
  | 'git'
  | 'httpQuery'
  | 'socket'
  | 'minionIds'
  | 'publishSerialBlock'
  | 'reconnectWaitSeconds'
  | 'holderWaitSeconds'
  | 'takeoverAfterSeconds'
  | 'confirmOpenMode'
  | 'confirmAutoEauth'
  | 'mineTrustsGrains'
  | 'pillarTrustsGrains'
  | 'reactions'
  | 'relay'
  | 'tenants';

/** Salt's options, which stand at the top of a file. */
export type SaltOptions = Omit<
  MasterConfig,
  OwnOptionName | RightsOptionName | 'limits' | 'acl' | 'eauth' | 'saltgui' | 'sdb'
>;

/** Salt's options on the rights of users. */
export type RightsOptionName =
  | 'publisherAcl'
  | 'publisherAclBlacklist'
  | 'externalAuth'
  | 'permissiveAcl';

/** How the options of a table are called in files. */
export function namesOf<T extends object>(table: OptionTable<T>): string[] {
  const names: string[] = [];
  for (const member in table) names.push(table[member].name);
  return names;
}

const megabytes100 = 100_000_000;
const mebibyte = 1_048_576;
const many = 1_000_000_000;

const tenantName = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/;

/** Names that can stand in a log, each with a directory; relative ones are told from the main file. */
const tenantDirectories: OptionKind<TenantDirectories> = {
  expected: 'a map of names (letters, digits, _ . -) to configuration directories',
  isPath: false,
  parse: (value) => {
    const directories: [string, string][] = [];
    for (const [name, given] of sectionEntries(value) ?? []) {
      const directory = numericText.parse(given);
      if (directory === undefined || !tenantName.test(name)) return undefined;
      directories.push([name, directory]);
    }
    return sectionEntries(value) === undefined ? undefined : Object.fromEntries(directories);
  },
  explain: (setting) =>
    ConfigError.of(
      settingsOf(setting).flatMap(([name, inner]) => {
        if (!tenantName.test(name)) {
          const problem = 'it cannot be called so, expected letters, digits, _ . -';
          return [new ConfigError('ERR_OPTION_TYPE', inner.origin, problem)];
        }
        const isRefused = numericText.parse(inner.value) === undefined;
        return isRefused ? [typeError(inner.origin, inner.value, 'a directory')] : [];
      }),
    ),
};

/** Salt's options that are served. */
export const saltOptions: OptionTable<SaltOptions> = {
  interface: row('interface', text, '0.0.0.0'),
  ipv6: row('ipv6', flag, null),
  publishPort: row('publish_port', integer(0, 65_535), 4505),
  retPort: row('ret_port', integer(0, 65_535), 4506),
  transport: row('transport', transportName, 'zeromq'),
  transportOpts: row('transport_opts', transportOpts, {}),
  ssl: row('ssl', ssl, false),
  id: row('id', numericText, `${hostname()}_master`),
  masterId: row('master_id', numericText, null),
  user: row('user', numericText, null),
  pidfile: row('pidfile', filePath, '/var/run/salt-master.pid'),
  rootDir: row('root_dir', text, '/'),
  confFile: row('conf_file', text, '/etc/salt/master'),
  pkiDir: row('pki_dir', filePath, '/etc/salt/pki/master'),
  cachedir: row('cachedir', filePath, '/var/cache/salt/master'),
  sockDir: row('sock_dir', filePath, '/var/run/salt/master'),
  keysize: row('keysize', integer(2048, 8192), 2048),
  keyPass: row('key_pass', passphrase, null),
  signingKeyPass: row('signing_key_pass', passphrase, null),
  hashType: row(
    'hash_type',
    oneOf(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']),
    'sha256',
  ),
  autoAccept: row('auto_accept', flag, false),
  openMode: row('open_mode', flag, false),
  autosignFile: row('autosign_file', filePath, null),
  autorejectFile: row('autoreject_file', filePath, null),
  autosignGrainsDir: row('autosign_grains_dir', filePath, null),
  autosignTimeout: row('autosign_timeout', duration('minutes'), 120),
  permissivePkiAccess: row('permissive_pki_access', flag, false),
  authEvents: row('auth_events', flag, true),
  maxMinions: row('max_minions', integer(0, many), 0),
  allowMinionKeyRevoke: row('allow_minion_key_revoke', flag, false),
  minimumAuthVersion: row('minimum_auth_version', authVersion, 'auto'),
  requestServerTtl: row('request_server_ttl', duration('seconds'), 300),
  requireMinionSignMessages: row('require_minion_sign_messages', flag, false),
  dropMessagesSignatureFail: row('drop_messages_signature_fail', flag, false),
  publishSession: row('publish_session', integer(1, many), 86_400),
  rotateAesKey: row('rotate_aes_key', flag, true),
  pingOnRotate: row('ping_on_rotate', flag, false),
  signPubMessages: row('sign_pub_messages', flag, true),
  publishSigningAlgorithm: row(
    'publish_signing_algorithm',
    oneOf(['PKCS1v15-SHA1', 'PKCS1v15-SHA224']),
    'PKCS1v15-SHA1',
  ),
  masterSignPubkey: row('master_sign_pubkey', flag, false),
  masterSignKeyName: row('master_sign_key_name', text, 'master_sign'),
  masterUsePubkeySignature: row('master_use_pubkey_signature', flag, false),
  masterPubkeySignature: row('master_pubkey_signature', text, 'master_pubkey_signature'),
  zmqFiltering: row('zmq_filtering', flag, false),
  zmqBacklog: row('zmq_backlog', integer(1, 65_535), 1000),
  pubHwm: row('pub_hwm', integer(1, many), 1000),
  tcpKeepalive: row('tcp_keepalive', flag, true),
  tcpKeepaliveIdle: row('tcp_keepalive_idle', number(-1, many), 300),
  timeout: row('timeout', duration('seconds'), 5),
  gatherJobTimeout: row('gather_job_timeout', duration('seconds'), 10),
  keepJobs: row('keep_jobs', duration('hours'), 24),
  keepJobsSeconds: row('keep_jobs_seconds', duration('seconds'), 86_400),
  jobCache: row('job_cache', flag, true),
  uniqueJid: row('unique_jid', flag, false),
  presenceEvents: row('presence_events', flag, false),
  loopInterval: row('loop_interval', number(0.1, many), 60),
  maxEventSize: row('max_event_size', integer(1024, megabytes100), mebibyte),
  nodegroups: row('nodegroups', nodegroups, {}),
  minionDataCache: row('minion_data_cache', flag, true),
  minionDataCacheEvents: row('minion_data_cache_events', flag, true),
  preserveMinionCache: row('preserve_minion_cache', flag, false),
  fileRoots: row('file_roots', fileRoots, { base: ['/srv/salt', '/srv/spm/salt'] }),
  pillarRoots: row('pillar_roots', fileRoots, { base: ['/srv/pillar', '/srv/spm/pillar'] }),
  pillarenv: row('pillarenv', numericText, null),
  pillarSourceMergingStrategy: row(
    'pillar_source_merging_strategy',
    oneOf(mergeStrategies),
    'smart',
  ),
  pillarMergeLists: row('pillar_merge_lists', flag, false),
  pillarIncludesOverrideSls: row('pillar_includes_override_sls', flag, false),
  pillarSafeRenderError: row('pillar_safe_render_error', flag, true),
  pillarRaiseOnMissing: row('pillar_raise_on_missing', flag, false),
  extPillar: row('ext_pillar', extPillarEntries, []),
  extPillarFirst: row('ext_pillar_first', flag, false),
  pillarOpts: row('pillar_opts', flag, false),
  fileIgnoreGlob: row('file_ignore_glob', textList, []),
  fileIgnoreRegex: row('file_ignore_regex', patternList, []),
  fileserverBackend: row('fileserver_backend', fileserverBackends, ['roots']),
  ...gitOptionRows,
  fileserverFollowsymlinks: row('fileserver_followsymlinks', flag, true),
  fileserverIgnoresymlinks: row('fileserver_ignoresymlinks', flag, false),
  fileserverListCacheTime: row('fileserver_list_cache_time', integer(1, many), 20),
  fileBufferSize: row('file_buffer_size', integer(1024, 16 * mebibyte), mebibyte),
  fileRecv: row('file_recv', flag, false),
  fileRecvMaxSize: row('file_recv_max_size', integer(0, many), 100),
  topFileMergingStrategy: row(
    'top_file_merging_strategy',
    oneOf(['merge', 'same', 'merge_all']),
    'merge',
  ),
  envOrder: row('env_order', textList, []),
  defaultTop: row('default_top', numericText, 'base'),
  renderer: row('renderer', text, 'jinja|yaml'),
  failhard: row('failhard', flag, false),
  stateTop: row('state_top', text, 'top.sls'),
  stateTopSaltenv: row('state_top_saltenv', numericText, null),
  stateAutoOrder: row('state_auto_order', flag, true),
  stateEvents: row('state_events', flag, false),
  stateAggregate: row('state_aggregate', flagOrNames, false),
  jinjaEnv: row('jinja_env', plainMap, {}),
  jinjaSlsEnv: row('jinja_sls_env', plainMap, {}),
  jinjaLstripBlocks: row('jinja_lstrip_blocks', flag, false),
  jinjaTrimBlocks: row('jinja_trim_blocks', flag, false),
  enforceMineCache: row('enforce_mine_cache', flag, false),
  mineGet: row('mine_get', functionPermissions, null),
  peer: row('peer', publishPermissions, {}),
  reactor: row('reactor', reactor, []),
  peerRun: row('peer_run', functionPermissions, {}),
  schedule: row('schedule', scheduleMap, {}),
  runnerReturns: row('runner_returns', flag, true),
  restCherrypy: row('rest_cherrypy', httpApi, null),
  netapiEnableClients: row('netapi_enable_clients', textList, null),
  restTimeout: row('rest_timeout', duration('seconds'), 300),
  logLevel: row('log_level', oneOf(logLevels), 'warning'),
  logLevelLogfile: row('log_level_logfile', oneOf(logLevels), null),
  logFile: row('log_file', pathOrUrl, '/var/log/salt/master'),
  output: row('output', text, null),
  color: row('color', flag, null),
  stateOutput: row('state_output', text, 'full'),
  stateVerbose: row('state_verbose', flag, true),
  stateOutputProfile: row('state_output_profile', flag, true),
  saltCpChunkSize: row('salt_cp_chunk_size', integer(1, 16 * mebibyte), 98_304),
};

/** Salt's options on the rights of users. */
export const rightsOptions: OptionTable<Pick<MasterConfig, RightsOptionName>> = {
  publisherAcl: row('publisher_acl', rights, {}),
  publisherAclBlacklist: row('publisher_acl_blacklist', rights, {}),
  externalAuth: row('external_auth', rights, {}),
  permissiveAcl: row('permissive_acl', flag, false),
};

/** Our own options. */
export const ownOptions: OptionTable<Pick<MasterConfig, OwnOptionName>> = {
  stateDir: row('state_dir', filePath, '/var/lib/saltbridge'),
  socket: row('socket', filePath, 'saltbridge.sock'),
  api: row('api', httpApi, null),
  eventRing: row('event_ring', eventRing, null),
  audit: row('audit', auditOptions, auditDefaults),
  eventExport: row('event_export', eventExports, []),
  exportBytes: row('export_bytes', integer(65_536, 2 ** 40), 256 * 1_048_576),
  git: row('git', gitLimits, gitLimitDefaults),
  httpQuery: row('http_query', httpQueryOptions, httpQueryDefaults),
  bridge: row('bridge', plainMap, null),
  cluster: row('cluster', clusterOptions, null),
  minionIds: row('minion_ids', oneOf(['strict', 'salt']), 'strict'),
  publishSerialBlock: row('publish_serial_block', integer(1, many), 1000),
  reconnectWaitSeconds: row('reconnect_wait', integer(0, 60), 3),
  takeoverAfterSeconds: row('takeover_after', integer(1, 3600), 15),
  holderWaitSeconds: row('holder_wait', integer(1, 3600), 45),
  confirmOpenMode: row('confirm_open_mode', flag, false),
  confirmAutoEauth: row('confirm_auto_eauth', flag, false),
  mineTrustsGrains: row('mine_trusts_grains', flag, false),
  pillarTrustsGrains: row('pillar_trusts_grains', flag, true),
  tenants: row('tenants', tenantDirectories, {}),
  reactions: row('reactions', reactions, []),
  relay: row('relay', relayOptions, null),
};

/** Our limits. */
export const limitOptions: OptionTable<Limits> = {
  requestsPerSecond: row('requests_per_second', integer(0, many), 50),
  eventsPerSecond: row('events_per_second', integer(0, many), 20),
  burst: row('burst', integer(1, many), 200),
  requestBytes: row('request_bytes', integer(1024, megabytes100), 16 * mebibyte),
  returnBytes: row('return_bytes', integer(1024, megabytes100), 16 * mebibyte),
  eventBytes: row('event_bytes', integer(1024, megabytes100), mebibyte),
  fileBytesPerSecond: row('file_bytes_per_second', integer(0, many), 64 * mebibyte),
  pushedBytes: row('pushed_bytes', integer(0, 2 ** 50), 64 * mebibyte),
  pushedFiles: row('pushed_files', integer(0, many), 4096),
  pillarSteps: row('pillar_steps', integer(1000, many), 100_000),
  orchestrations: row('orchestrations', integer(1, 1000), 16),
  orchestrationStates: row('orchestration_states', integer(1, 100_000), 2000),
  orchestrationSeconds: row('orchestration_seconds', integer(1, 2_000_000), 86_400),
  grainsBytes: row('grains_bytes', integer(1024, megabytes100), mebibyte),
  authsPerSecond: row('auths_per_second', integer(0, many), 20),
  mineBytes: row('mine_bytes', integer(1024, megabytes100), mebibyte),
  mineValueBytes: row('mine_value_bytes', integer(1024, megabytes100), 65_536),
  mineReplyBytes: row('mine_reply_bytes', integer(1024, megabytes100), 16 * mebibyte),
  pendingKeys: row('pending_keys', integer(0, many), 500),
  pendingKeysPerAddress: row('pending_keys_per_address', integer(0, many), 64),
};

/** What is permitted. */
export const aclOptions: OptionTable<AclOptions> = {
  signals: row('signals', signalRules, []),
  rules: row('rules', policyRules, []),
  mode: row('mode', oneOf(['enforce', 'learn']), 'enforce'),
  learnActions: row('learn_actions', learnActions, ['signal', 'mine']),
  recordData: row('record_data', flag, true),
};

function row<T>(name: string, kind: OptionKind<T>, defaultValue: NoInfer<T>): OptionRow<T>;
function row<T>(name: string, kind: OptionKind<T>, defaultValue: null): OptionRow<T | null>;
function row<T>(name: string, kind: OptionKind<T>, defaultValue: T | null): OptionRow<T | null> {
  return { name, kind, default: defaultValue };
}

/** A number is one whose quotes were forgotten. */
const secretText: OptionKind<string> = {
  ...passphrase,
  parse: (value) => passphrase.parse(typeof value === 'number' ? String(value) : value),
};

/** The name of a file in /etc/pam.d. */
const serviceName: OptionKind<string> = {
  ...text,
  expected: 'the name of a PAM service',
  parse: (value) => (/^\w[\w.-]*$/.test(String(value)) ? text.parse(value) : undefined),
};

/** Salt writes it as text, too. */
const port: OptionKind<number> = {
  ...integer(1, 65_535),
  parse: (value) => integer(1, 65_535).parse(typeof value === 'string' ? Number(value) : value),
};

/** Text that may be empty. */
const anyText: OptionKind<string> = {
  expected: 'text',
  isPath: false,
  parse: (value) => (value === '' || value === false ? '' : text.parse(value)),
};

const expireOverride: OptionKind<ExpireOverride> = {
  expected: 'true, false, or a map of eauths to lists of users',
  isPath: false,
  parse: (value) => {
    const plain = toPlain(value);
    if (typeof plain !== 'object' || plain === null || Array.isArray(plain)) {
      return flag.parse(plain);
    }
    const lists = Object.entries(plain).map(
      ([name, list]) => [name, textList.parse(list)] as const,
    );
    const read = lists.flatMap(([name, list]) =>
      list === undefined ? [] : [[name, list] as const],
    );
    return read.length === lists.length ? Object.fromEntries(read) : undefined;
  },
  explain: (setting) => explainEntries(textList, setting),
};

/** A row for each. */
export const eauthOptions: OptionTable<EauthOptions> = {
  tokenExpire: { name: 'token_expire', kind: integer(1, 1_000_000_000), default: 43_200 },
  tokenExpireUserOverride: {
    name: 'token_expire_user_override',
    kind: expireOverride,
    default: false,
  },
  keepAclInToken: { name: 'keep_acl_in_token', kind: flag, default: false },
  sudoAcl: { name: 'sudo_acl', kind: flag, default: false },
  sharedsecret: { name: 'sharedsecret', kind: secretText, default: null },
  pamService: { name: 'auth.pam.service', kind: serviceName, default: 'login' },
  keystoneAuthUrl: { name: 'keystone.auth_url', kind: text, default: 'http://localhost:5000/v3' },
  ldapUri: { name: 'auth.ldap.uri', kind: text, default: null },
  ldapServer: { name: 'auth.ldap.server', kind: text, default: 'localhost' },
  ldapPort: { name: 'auth.ldap.port', kind: port, default: 389 },
  ldapStarttls: { name: 'auth.ldap.starttls', kind: flag, default: false },
  ldapTls: { name: 'auth.ldap.tls', kind: flag, default: false },
  ldapNoVerify: { name: 'auth.ldap.no_verify', kind: flag, default: false },
  ldapBinddn: { name: 'auth.ldap.binddn', kind: text, default: null },
  ldapBindpw: { name: 'auth.ldap.bindpw', kind: secretText, default: null },
  ldapFilter: { name: 'auth.ldap.filter', kind: text, default: null },
  ldapBasedn: { name: 'auth.ldap.basedn', kind: anyText, default: '' },
  ldapScope: { name: 'auth.ldap.scope', kind: integer(0, 2), default: 2 },
  ldapAnonymous: { name: 'auth.ldap.anonymous', kind: flag, default: false },
  ldapByGroupOnly: {
    name: 'auth.ldap.auth_by_group_membership_only',
    kind: flag,
    default: false,
  },
  ldapGroupou: { name: 'auth.ldap.groupou', kind: anyText, default: 'Groups' },
  ldapGroupBasedn: { name: 'auth.ldap.group_basedn', kind: text, default: null },
  ldapGroupFilter: { name: 'auth.ldap.group_filter', kind: text, default: null },
  ldapAccountAttribute: {
    name: 'auth.ldap.accountattributename',
    kind: text,
    default: 'memberUid',
  },
  ldapGroupAttribute: { name: 'auth.ldap.groupattribute', kind: text, default: 'memberOf' },
  ldapPersontype: { name: 'auth.ldap.persontype', kind: text, default: 'person' },
  ldapGroupclass: { name: 'auth.ldap.groupclass', kind: text, default: 'posixGroup' },
  ldapActivedirectory: { name: 'auth.ldap.activedirectory', kind: flag, default: false },
  ldapFreeipa: { name: 'auth.ldap.freeipa', kind: flag, default: false },
};

// Options without effect that SaltGUI reads through the wheel function `config.values`.

const own = /^saltgui_/;
const ofSalt: ReadonlySet<string> = new Set([
  'cluster_id',
  'cluster_peers',
  'order_masters',
  'reactor',
  'state_compress_ids',
  'state_output',
  'state_output_pct',
  'state_verbose',
  'syndic_master',
  'test_providers_target',
]);

export function isPassedOn(name: string): boolean {
  return own.test(name) || ofSalt.has(name);
}

/** Those that are set, as they stand there. */
export function readPassedOn(settings: Settings): WireMap {
  const found = [...settings].filter(([name]) => isPassedOn(name));
  // What a file can hold is made of Salt's values.
  return Object.fromEntries(found.map(([name, { value }]) => [name, toPlain(value) as WireValue]));
}
