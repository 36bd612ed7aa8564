/**
 * Salt's options at the top level of a file. Names, units and defaults are the same as in Salt's
 * master configuration (salt/config/__init__.py, 3007.0). docs/compatibility/configuration.md lists
 * the exceptions.
 */

import { hostname } from 'node:os';
import { extPillarEntries } from './ext-pillar.ts';
import { fileRoots, flagOrNames, nodegroups, patternList, plainMap } from './file-options.ts';
import { fileserverBackends } from './fileserver-backend.ts';
import { gitOptions } from './git-options.ts';
import { httpApi } from './http-api-options.ts';
import { logLevels } from './log-level.ts';
import { mergeStrategies } from './merge-strategies.ts';
import { option } from './option.ts';
import { functionPermissions, publishPermissions, rights } from './permissions.ts';
import { reactor } from './reactor-entries.ts';
import { scheduleMap } from './schedule.ts';
import {
  authVersion,
  bytes,
  duration,
  flag,
  integer,
  many,
  mebibyte,
  megabytes100,
  number,
  numericText,
  oneOf,
  passphrase,
  text,
  textList,
} from './schema.ts';
import { ssl, transportName, transportOpts } from './transport-options.ts';

const nextSignIn = 'the next sign-in';
const nextCommand = 'the next command';
const nextJobs = 'jobs that are published from now on';
const instead = (what: string): { readonly instead: string } => ({ instead: what });

export const saltOptions = {
  interface: option('interface', text(), '0.0.0.0', 'Address that both ports are bound to.', {
    isForMinions: true,
  }),
  ipv6: option('ipv6', flag(), null, 'Whether `interface` is an IPv6 address.', {
    defaultText: 'derived from the address',
    isForMinions: true,
  }),
  publishPort: option(
    'publish_port',
    integer(0, 65_535),
    4505,
    'Port for publications. 0: any free port.',
    { isForMinions: true },
  ),
  retPort: option(
    'ret_port',
    integer(0, 65_535),
    4506,
    'Port for requests of minions. 0: any free port.',
    { program: 'requestPort', isForMinions: true },
  ),
  transport: option('transport', transportName, 'zeromq', 'Transport of both ports.', {
    isForMinions: true,
  }),
  transportOpts: option(
    'transport_opts',
    transportOpts,
    {},
    'Additional transports, each with options that override the general ones.',
  ),
  ssl: option(
    'ssl',
    ssl,
    false,
    'TLS for the transports `tcp` and `ws`. ZeroMQ has no TLS. Paths are used as written.',
  ),
  id: option(
    'id',
    numericText(),
    `${hostname()}_master`,
    'Name of this master. A number is taken as text.',
    { defaultText: '`<host name>_master`', isForMinions: true },
  ),
  masterId: option(
    'master_id',
    numericText(),
    null,
    'Id that publications carry, for a master of masters.',
    { isForMinions: true },
  ),
  user: option(
    'user',
    numericText(),
    null,
    'Account that `saltbridge master` changes to if root starts it.',
    {
      defaultText: 'the account that starts it',
      program: instead('applies only to saltbridge master; omit it'),
    },
  ),
  pidfile: option(
    'pidfile',
    text({ expected: 'a path' }),
    '/var/run/salt-master.pid',
    'File in which `saltbridge master` writes its process id.',
    {
      base: 'root_dir',
      isPerProcess: true,
      program: instead('applies only to saltbridge master; omit it'),
    },
  ),
  rootDir: option(
    'root_dir',
    text(),
    '/',
    'Directory that all other paths are joined to, unless they are already below it.',
    { isForMinions: true },
  ),
  confFile: option('conf_file', text(), '/etc/salt/master', 'Main file of the configuration.', {
    isPerProcess: true,
    program: instead('pass the result of loadSaltConfig as config'),
  }),
  pkiDir: option(
    'pki_dir',
    text({ expected: 'a path' }),
    '/etc/salt/pki/master',
    "Directory of the master's keys and the keys of minions.",
    { base: 'root_dir', isForMinions: true },
  ),
  cachedir: option(
    'cachedir',
    text({ expected: 'a path' }),
    '/var/cache/salt/master',
    'Directory of pushed files and caches.',
    { base: 'root_dir', program: 'cacheDir', isForMinions: true },
  ),
  sockDir: option(
    'sock_dir',
    text({ expected: 'a path' }),
    '/var/run/salt/master',
    'Directory of local sockets. If it is more than ten characters longer than `cachedir`, it is `<cachedir>/.salt-unix`, because socket paths are short.',
    { base: 'root_dir', program: 'socketDir', isForMinions: true },
  ),
  keysize: option(
    'keysize',
    integer(2048, 8192),
    2048,
    "Size of the master's RSA key when it is generated, in bits.",
    { program: 'keyBits' },
  ),
  keyPass: option('key_pass', passphrase(), null, 'Passphrase of `master.pem`.', {
    defaultText: 'the key is not encrypted',
    isSecret: true,
  }),
  signingKeyPass: option(
    'signing_key_pass',
    passphrase(),
    null,
    'Passphrase of the key of `master_sign_pubkey`.',
    { defaultText: 'the key is not encrypted', isSecret: true },
  ),
  hashType: option(
    'hash_type',
    oneOf(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']),
    'sha256',
    'Hash function of key fingerprints and of files.',
    { isForMinions: true },
  ),
  autoAccept: option('auto_accept', flag(), false, 'Whether every new key is accepted.', {
    reload: nextSignIn,
  }),
  openMode: option(
    'open_mode',
    flag(),
    false,
    'Whether every key is accepted, even a new key for a known id. Requires `confirm_open_mode`.',
    { reload: nextSignIn },
  ),
  autosignFile: option(
    'autosign_file',
    text({ expected: 'a path' }),
    null,
    'File of ids to accept, one expression per line.',
    { base: 'root_dir', reload: nextSignIn },
  ),
  autorejectFile: option(
    'autoreject_file',
    text({ expected: 'a path' }),
    null,
    'File of ids to reject, one expression per line.',
    { base: 'root_dir', reload: nextSignIn },
  ),
  autosignGrainsDir: option(
    'autosign_grains_dir',
    text({ expected: 'a path' }),
    null,
    'Directory of files with grain values that accept a minion.',
    { base: 'root_dir', reload: nextSignIn },
  ),
  autosignTimeout: option(
    'autosign_timeout',
    duration('minutes'),
    120,
    'How long a file in `minions_autosign` is valid. 0: without limit.',
    { reload: nextSignIn, program: 'autosignTimeoutMinutes' },
  ),
  permissivePkiAccess: option(
    'permissive_pki_access',
    flag(),
    false,
    'Whether the group may write the autosign files.',
    { reload: nextSignIn },
  ),
  authEvents: option('auth_events', flag(), true, 'Whether `salt/auth` events are fired.', {
    reload: nextSignIn,
  }),
  maxMinions: option(
    'max_minions',
    integer(0, many),
    0,
    'Maximum number of connected minions. Further minions retry later. 0: no limit.',
    { reload: nextSignIn },
  ),
  allowMinionKeyRevoke: option(
    'allow_minion_key_revoke',
    flag(),
    false,
    'Whether a minion may delete its own key.',
    { reload: 'the next request', migration: "The default differs from Salt's, which is true." },
  ),
  minimumAuthVersion: option(
    'minimum_auth_version',
    authVersion,
    'auto',
    'Lowest protocol version that is accepted. `auto`: for each id, the highest version that it has proved.',
    { migration: 'The latest releases of Salt accept only version 3; `auto` accepts 0 to 3.' },
  ),
  requestServerTtl: option(
    'request_server_ttl',
    duration('seconds'),
    300,
    'Maximum deviation of the time stamp of a request. 0: any time stamp is accepted.',
    { program: 'requestTtlSeconds', migration: "The default differs from Salt's, which is 0." },
  ),
  requireMinionSignMessages: option(
    'require_minion_sign_messages',
    flag(),
    false,
    'Whether returns without a signature are rejected.',
  ),
  dropMessagesSignatureFail: option(
    'drop_messages_signature_fail',
    flag(),
    false,
    'Whether returns with a wrong signature are rejected. If false, they are counted (`return-signature`) and logged.',
  ),
  publishSession: option(
    'publish_session',
    integer(1, many, { unit: 'seconds' }),
    86_400,
    'Lifetime of the publish key and of session keys.',
    { program: 'publishSessionSeconds' },
  ),
  rotateAesKey: option(
    'rotate_aes_key',
    flag(),
    true,
    'Whether the publish key is replaced when a key is deleted or rejected.',
    { reload: 'the next deleted or rejected key' },
  ),
  pingOnRotate: option(
    'ping_on_rotate',
    flag(),
    false,
    'Whether `test.ping` is published to all minions after a rotation.',
    { reload: 'the next rotation' },
  ),
  signPubMessages: option('sign_pub_messages', flag(), true, 'Whether publications are signed.', {
    isForMinions: true,
  }),
  publishSigningAlgorithm: option(
    'publish_signing_algorithm',
    oneOf(['PKCS1v15-SHA1', 'PKCS1v15-SHA224']),
    'PKCS1v15-SHA1',
    'Signature algorithm of publications.',
  ),
  masterSignPubkey: option(
    'master_sign_pubkey',
    flag(),
    false,
    "Whether a second key signs the master's public key.",
    { isForMinions: true },
  ),
  masterSignKeyName: option(
    'master_sign_key_name',
    text(),
    'master_sign',
    'File name of the second key, without `.pem`.',
  ),
  masterUsePubkeySignature: option(
    'master_use_pubkey_signature',
    flag(),
    false,
    'Whether a precomputed signature is sent, so that the second key need not be on this host.',
  ),
  masterPubkeySignature: option(
    'master_pubkey_signature',
    text(),
    'master_pubkey_signature',
    'File of the precomputed signature, below `pki_dir`.',
  ),
  zmqFiltering: option(
    'zmq_filtering',
    flag(),
    false,
    'Whether a publication is sent only to the matching minions.',
    { isForMinions: true },
  ),
  zmqBacklog: option(
    'zmq_backlog',
    integer(1, 65_535),
    1000,
    'Maximum number of connections that wait to be accepted.',
  ),
  pubHwm: option(
    'pub_hwm',
    integer(0, many),
    1000,
    'Maximum number of publications in the queue of a subscriber. 0: any number, up to 8 MiB.',
  ),
  tcpKeepalive: option('tcp_keepalive', flag(), true, 'Whether idle connections are probed.'),
  tcpKeepaliveIdle: option(
    'tcp_keepalive_idle',
    number(-1, many, { unit: 'seconds' }),
    300,
    'Idle time before the first probe. -1: the default of the operating system.',
    { program: 'tcpKeepaliveIdleSeconds' },
  ),
  timeout: option('timeout', duration('seconds'), 5, 'Time for which a caller waits for returns.', {
    reload: nextJobs,
    program: 'timeoutSeconds',
    isForMinions: true,
  }),
  gatherJobTimeout: option(
    'gather_job_timeout',
    duration('seconds'),
    10,
    'Time for a minion to report whether it is still running a job.',
    { reload: nextJobs, program: 'gatherJobTimeoutSeconds', isForMinions: true },
  ),
  keepJobs: option(
    'keep_jobs',
    duration('hours'),
    24,
    'Time for which a job is stored, if `keep_jobs_seconds` is not set.',
    { reload: nextJobs, program: instead('use keepJobsSeconds') },
  ),
  keepJobsSeconds: option(
    'keep_jobs_seconds',
    duration('seconds'),
    86_400,
    'Time for which a job is stored.',
    { reload: nextJobs, isForMinions: true },
  ),
  jobCache: option('job_cache', flag(), true, 'Whether jobs and returns are stored.'),
  uniqueJid: option('unique_jid', flag(), false, 'Whether job ids contain the process id.'),
  presenceEvents: option(
    'presence_events',
    flag(),
    false,
    'Whether `salt/presence/present` is fired every `loop_interval`, and `salt/presence/change` after a change.',
  ),
  loopInterval: option(
    'loop_interval',
    number(0.1, many, { unit: 'seconds' }),
    60,
    'Time between rounds of maintenance.',
    { program: 'loopIntervalSeconds' },
  ),
  maxEventSize: option(
    'max_event_size',
    bytes(1024, megabytes100),
    mebibyte,
    'Maximum size of an event on the bus. Larger values in the event are trimmed.',
  ),
  nodegroups: option(
    'nodegroups',
    nodegroups,
    {},
    'Names for compound expressions, which may contain each other.',
    { reload: 'the next target' },
  ),
  minionDataCache: option(
    'minion_data_cache',
    flag(),
    true,
    'Whether grains and pillar of minions are stored for targeting. If false, such targets match every accepted key.',
    { isForMinions: true },
  ),
  minionDataCacheEvents: option(
    'minion_data_cache_events',
    flag(),
    true,
    'Whether `minion/refresh/<id>` is fired when grains or pillar are stored.',
    { reload: 'the next pillar' },
  ),
  preserveMinionCache: option(
    'preserve_minion_cache',
    flag(),
    false,
    'Whether grains and pillar remain stored when the key is deleted.',
  ),
  fileRoots: option(
    'file_roots',
    fileRoots,
    { base: ['/srv/salt', '/srv/spm/salt'] },
    'Directories that files are served from, by environment; globs are expanded. The environment `__env__` stands for every environment without directories of its own.',
    { extension: 'files', isForMinions: true },
  ),
  pillarRoots: option(
    'pillar_roots',
    fileRoots,
    { base: ['/srv/pillar', '/srv/spm/pillar'] },
    'Directories of pillar files, by environment, in the form of `file_roots`.',
    { extension: 'pillar', isForMinions: true },
  ),
  pillarenv: option(
    'pillarenv',
    numericText(),
    null,
    'Pillar environment of minions that do not set one.',
    { defaultText: 'all environments', extension: 'pillar', isForMinions: true },
  ),
  pillarSourceMergingStrategy: option(
    'pillar_source_merging_strategy',
    oneOf(mergeStrategies),
    'smart',
    'Method of merging pillar files.',
    { extension: 'pillar', isForMinions: true },
  ),
  pillarMergeLists: option(
    'pillar_merge_lists',
    flag(),
    false,
    'Whether lists under the same key of several pillar files are joined.',
    { extension: 'pillar', isForMinions: true },
  ),
  pillarIncludesOverrideSls: option(
    'pillar_includes_override_sls',
    flag(),
    false,
    'Whether an included pillar file overrides the file that includes it.',
    { extension: 'pillar', isForMinions: true },
  ),
  pillarSafeRenderError: option(
    'pillar_safe_render_error',
    flag(),
    true,
    'Whether minions get no details of an error in a pillar file.',
    { extension: 'pillar', isForMinions: true },
  ),
  pillarRaiseOnMissing: option(
    'pillar_raise_on_missing',
    flag(),
    false,
    'Whether `pillar.get` without a default fails in pillar files if the key is missing.',
    { extension: 'pillar', isForMinions: true },
  ),
  extPillar: option(
    'ext_pillar',
    extPillarEntries,
    [],
    'Sources of pillar besides the files. Later sources override earlier ones.',
    {
      extension: 'pillar',
      isSecret: true,
      program: instead('pass sources of pillar, for example from extPillarHttp'),
      migration: 'Only the modules `git`, `minion_files` and `minion_http` are supported.',
    },
  ),
  onDemandExtPillar: option(
    'on_demand_ext_pillar',
    textList(),
    ['libvirt', 'virtkey'],
    'Modules of `ext_pillar` that templates may name in `pillar.ext`.',
    {
      extension: 'pillar',
      migration:
        'Only `minion_files` and `minion_http` are supported, and only in templates of the master. Sources that a minion names are refused.',
    },
  ),
  extPillarFirst: option(
    'ext_pillar_first',
    flag(),
    false,
    'Whether `ext_pillar` is evaluated before the files. The files then override it.',
    { extension: 'pillar', isForMinions: true },
  ),
  pillarOpts: option(
    'pillar_opts',
    flag(),
    false,
    'Whether pillar contains options of the master, as `master`.',
    { extension: 'pillar', isForMinions: true },
  ),
  fileIgnoreGlob: option(
    'file_ignore_glob',
    textList(),
    [],
    'Globs of paths that are not served.',
    { extension: 'files' },
  ),
  fileIgnoreRegex: option(
    'file_ignore_regex',
    patternList,
    [],
    'Regular expressions. Paths that contain a match are not served.',
    { extension: 'files' },
  ),
  fileserverBackend: option(
    'fileserver_backend',
    fileserverBackends,
    ['roots'],
    'Sources of files (`roots`, `gitfs`), in the order of look-up.',
    { extension: 'files' },
  ),
  ...gitOptions,
  fileserverFollowsymlinks: option(
    'fileserver_followsymlinks',
    flag(),
    true,
    'Whether directories behind symbolic links are listed.',
    { extension: 'files' },
  ),
  fileserverIgnoresymlinks: option(
    'fileserver_ignoresymlinks',
    flag(),
    false,
    'Whether symbolic links are left out of lists.',
    { extension: 'files' },
  ),
  fileserverListCacheTime: option(
    'fileserver_list_cache_time',
    integer(0, many, { unit: 'seconds' }),
    20,
    'Time between scans for changed directories that the operating system did not report. 0: each request for a list scans them.',
    { extension: 'files', program: 'fileListCacheSeconds' },
  ),
  fileBufferSize: option(
    'file_buffer_size',
    bytes(1024, 16 * mebibyte),
    mebibyte,
    'Size of the parts in which files are sent.',
    { extension: 'files', isForMinions: true },
  ),
  fileRecv: option('file_recv', flag(), false, 'Whether minions may push files.', {
    extension: 'files',
    isForMinions: true,
  }),
  fileRecvMaxSize: option(
    'file_recv_max_size',
    integer(0, many, { unit: 'MiB' }),
    100,
    'Maximum size of a pushed file.',
    { extension: 'files', isForMinions: true },
  ),
  topFileMergingStrategy: option(
    'top_file_merging_strategy',
    oneOf(['merge', 'same', 'merge_all']),
    'merge',
    'Method by which minions merge the top files of several environments.',
    { isForMinions: true },
  ),
  envOrder: option('env_order', textList(), [], 'Order in which environments are merged.', {
    isForMinions: true,
  }),
  defaultTop: option(
    'default_top',
    numericText(),
    'base',
    'Environment whose top file is used with `top_file_merging_strategy: same` if an environment has none.',
    { isForMinions: true },
  ),
  renderer: option('renderer', text(), 'jinja|yaml', 'Renderers of state files.', {
    isForMinions: true,
  }),
  failhard: option(
    'failhard',
    flag(),
    false,
    'Whether a state run stops at the first failed state.',
    {
      isForMinions: true,
    },
  ),
  stateTop: option('state_top', text(), 'top.sls', 'Name of the top file.', { isForMinions: true }),
  stateTopSaltenv: option(
    'state_top_saltenv',
    numericText(),
    null,
    'Environment whose top file is used exclusively.',
    { defaultText: 'all environments', isForMinions: true },
  ),
  stateAutoOrder: option(
    'state_auto_order',
    flag(),
    true,
    'Whether states run in the order of their files.',
    { isForMinions: true },
  ),
  stateEvents: option('state_events', flag(), false, 'Whether each state fires an event.', {
    isForMinions: true,
  }),
  stateAggregate: option(
    'state_aggregate',
    flagOrNames,
    false,
    'Whether states are aggregated: all, or those of the listed modules.',
    { isForMinions: true },
  ),
  jinjaEnv: option('jinja_env', plainMap, {}, 'Options of Jinja for templates.', {
    isForMinions: true,
  }),
  jinjaSlsEnv: option('jinja_sls_env', plainMap, {}, 'Options of Jinja for state files.', {
    isForMinions: true,
  }),
  jinjaLstripBlocks: option(
    'jinja_lstrip_blocks',
    flag(),
    false,
    'Whether Jinja strips blanks before a block.',
    { isForMinions: true },
  ),
  jinjaTrimBlocks: option(
    'jinja_trim_blocks',
    flag(),
    false,
    'Whether Jinja removes the first newline after a block.',
    { isForMinions: true },
  ),
  enforceMineCache: option(
    'enforce_mine_cache',
    flag(),
    false,
    'Whether the mine is stored even without `minion_data_cache`.',
    { extension: 'mine' },
  ),
  mineGet: option(
    'mine_get',
    functionPermissions,
    null,
    'Access of minions to functions of the mine: regular expressions on ids, each with a list of regular expressions on functions.',
    { defaultText: 'every minion may read every function', extension: 'mine' },
  ),
  peer: option(
    'peer',
    publishPermissions,
    {},
    'Functions that minions may publish: regular expressions on ids, each with a list of regular expressions on functions, or of maps from a compound target to such a list.',
    { extension: 'peers' },
  ),
  reactor: option('reactor', reactor, [], 'Reactor files, by globs on event tags.', {
    reload: 'the next event, the next run',
    extension: 'reactor',
    migration:
      'A file may perform only actions that rules permit to the service `reaction:<file>`.',
  }),
  peerRun: option(
    'peer_run',
    functionPermissions,
    {},
    'Runners that minions may run, in the form of `mine_get`.',
    { extension: 'peers' },
  ),
  schedule: option(
    'schedule',
    scheduleMap,
    {},
    'Runners and jobs that the master starts at set times.',
    {
      extension: 'schedule',
      isSecret: true,
    },
  ),
  runnerReturns: option(
    'runner_returns',
    flag(),
    true,
    'Whether results of runners are stored if no client waits for them.',
    { extension: 'runners' },
  ),
  restCherrypy: option('rest_cherrypy', httpApi, null, "Salt's HTTP API.", {
    defaultText: 'not served',
    extension: 'salt-api',
    program: instead('use api'),
  }),
  netapiEnableClients: option(
    'netapi_enable_clients',
    textList(),
    null,
    'Clients of the HTTP API that are served.',
    {
      defaultText: 'all clients',
      extension: 'salt-api',
      migration: "The default differs from Salt's, which serves no client.",
    },
  ),
  restTimeout: option(
    'rest_timeout',
    duration('seconds'),
    300,
    'Time for which the HTTP API waits for a runner.',
    { extension: 'salt-api', program: 'httpRunnerTimeoutSeconds' },
  ),
  logLevel: option('log_level', oneOf(logLevels), 'warning', 'Lowest level on the console.', {
    reload: 'the next line',
    isPerProcess: true,
  }),
  logLevelLogfile: option(
    'log_level_logfile',
    oneOf(logLevels),
    null,
    'Lowest level in `log_file`.',
    {
      defaultText: '`log_level`',
      reload: 'the next line',
      isPerProcess: true,
      program: instead('use logger'),
    },
  ),
  logFile: option(
    'log_file',
    text({ expected: 'a path or an address' }),
    '/var/log/salt/master',
    'Log file.',
    { base: 'root_dir', isPerProcess: true, program: instead('use logger') },
  ),
  output: option('output', text(), null, "Outputter of commands that print in Salt's format.", {
    defaultText: 'that of the function',
    reload: nextCommand,
  }),
  color: option('color', flag(), null, 'Whether these commands print colours, even into a pipe.', {
    defaultText: 'on a terminal',
    reload: nextCommand,
  }),
  stateOutput: option(
    'state_output',
    text(),
    'full',
    'Form in which these commands print states.',
    {
      reload: nextCommand,
    },
  ),
  stateVerbose: option(
    'state_verbose',
    flag(),
    true,
    'Whether these commands print states without changes.',
    { reload: nextCommand },
  ),
  stateOutputProfile: option(
    'state_output_profile',
    flag(),
    true,
    'Whether these commands print start and duration of a state.',
    { reload: nextCommand },
  ),
  saltCpChunkSize: option(
    'salt_cp_chunk_size',
    bytes(1, 16 * mebibyte),
    98_304,
    'Size of the parts that `salt-cp --chunked` sends.',
    { reload: nextCommand },
  ),
};

const nextRequest = 'the next request';

/** Salt's options that grant rights to users. */
export const rightsOptions = {
  publisherAcl: option(
    'publisher_acl',
    rights,
    {},
    'Functions that accounts of this host may publish.',
    {
      reload: nextRequest,
    },
  ),
  publisherAclBlacklist: option(
    'publisher_acl_blacklist',
    rights,
    {},
    'Users and modules that may not be used.',
    { reload: nextRequest },
  ),
  externalAuth: option(
    'external_auth',
    rights,
    {},
    'Rights of users, by the back end that authenticates them.',
    { reload: 'the next request, the next log-in' },
  ),
  permissiveAcl: option(
    'permissive_acl',
    flag(),
    false,
    'Whether named users also have the rights of `*` in `external_auth`.',
    { reload: nextRequest },
  ),
};
