import { hostname } from 'node:os';
import { auditDefaults, auditOptions } from './audit-options.ts';
import { eventRing } from './event-ring-options.ts';
import { extPillarEntries } from './ext-pillar-entries.ts';
import { fileRoots, flagOrNames, patternList, plainMap } from './file-options.ts';
import { httpApi } from './http-api-options.ts';
import { learnActions } from './learn-actions.ts';
import { nodegroups } from './nodegroups.ts';
import {
  authVersion,
  duration,
  flag,
  integer,
  number,
  numericText,
  type OptionKind,
  oneOf,
  passphrase,
  path,
  pathOrUrl,
  text,
  textList,
} from './option-kinds.ts';
import type { AclOptions, Limits, LogLevel, MasterConfig } from './options.ts';
import { functionPermissions, publishPermissions } from './permissions.ts';
import { policyRules } from './policy-rules.ts';
import { reactions } from './reactions.ts';
import { reactor } from './reactor.ts';
import { signalRules } from './signal-rules.ts';
import { ssl } from './ssl.ts';
import { tenantDirectories } from './tenant-directories.ts';
import { transportName, transportOpts } from './transport-opts.ts';
import { rights } from './user-rights.ts';

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
  | 'eventRing'
  | 'socket'
  | 'minionIds'
  | 'publishSerialBlock'
  | 'reconnectWaitSeconds'
  | 'confirmOpenMode'
  | 'confirmAutoEauth'
  | 'mineTrustsGrains'
  | 'pillarTrustsGrains'
  | 'reactions'
  | 'tenants';

/** Salt's options, which stand at the top of a file. */
export type SaltOptions = Omit<
  MasterConfig,
  OwnOptionName | RightsOptionName | 'limits' | 'acl' | 'eauth' | 'saltgui'
>;

/** Salt's options on the rights of users. */
export type RightsOptionName =
  | 'publisherAcl'
  | 'publisherAclBlacklist'
  | 'externalAuth'
  | 'permissiveAcl';

const megabytes100 = 100_000_000;
const mebibyte = 1_048_576;
const many = 1_000_000_000;

const logLevels: readonly LogLevel[] = [
  'all',
  'garbage',
  'trace',
  'debug',
  'profile',
  'info',
  'warning',
  'error',
  'critical',
  'quiet',
];

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
  pidfile: row('pidfile', path, '/var/run/salt-master.pid'),
  rootDir: row('root_dir', text, '/'),
  confFile: row('conf_file', text, '/etc/salt/master'),
  pkiDir: row('pki_dir', path, '/etc/salt/pki/master'),
  cachedir: row('cachedir', path, '/var/cache/salt/master'),
  sockDir: row('sock_dir', path, '/var/run/salt/master'),
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
  autosignFile: row('autosign_file', path, null),
  autorejectFile: row('autoreject_file', path, null),
  autosignGrainsDir: row('autosign_grains_dir', path, null),
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
    oneOf(['smart', 'recurse', 'aggregate', 'overwrite', 'list', 'none']),
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
  runnerReturns: row('runner_returns', flag, true),
  restCherrypy: row('rest_cherrypy', httpApi, null),
  netapiEnableClients: row('netapi_enable_clients', textList, null),
  restTimeout: row('rest_timeout', duration('seconds'), 300),
  logLevel: row('log_level', oneOf(logLevels), 'warning'),
  logLevelLogfile: row('log_level_logfile', oneOf(logLevels), null),
  logFile: row('log_file', pathOrUrl, '/var/log/salt/master'),
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
  stateDir: row('state_dir', path, '/var/lib/saltbridge'),
  socket: row('socket', path, 'saltbridge.sock'),
  api: row('api', httpApi, null),
  eventRing: row('event_ring', eventRing, null),
  audit: row('audit', auditOptions, auditDefaults),
  bridge: row('bridge', plainMap, null),
  minionIds: row('minion_ids', oneOf(['strict', 'salt']), 'strict'),
  publishSerialBlock: row('publish_serial_block', integer(1, many), 1000),
  reconnectWaitSeconds: row('reconnect_wait', integer(0, 60), 3),
  confirmOpenMode: row('confirm_open_mode', flag, false),
  confirmAutoEauth: row('confirm_auto_eauth', flag, false),
  mineTrustsGrains: row('mine_trusts_grains', flag, false),
  pillarTrustsGrains: row('pillar_trusts_grains', flag, true),
  tenants: row('tenants', tenantDirectories, {}),
  reactions: row('reactions', reactions, []),
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
