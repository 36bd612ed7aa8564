/** Options under `saltbridge:`, which Salt does not have. */

import { type AuditOptions, auditOptions } from './audit-options.ts';
import { clusterOptions } from './cluster-options.ts';
import { eventExports } from './event-export.ts';
import { eventRing } from './event-ring-options.ts';
import { bridgeMap } from './file-options.ts';
import { gitLimits } from './git-options.ts';
import { httpApi } from './http-api-options.ts';
import { httpQueryOptions } from './http-query-options.ts';
import { option } from './option.ts';
import { policyRules, signalRules } from './policy-schema.ts';
import { reactions } from './reactions.ts';
import { relayOptions } from './relay-options.ts';
import {
  bytes,
  defaultsOf,
  flag,
  integer,
  list,
  many,
  mebibyte,
  megabytes100,
  oneOf,
  text,
  textList,
} from './schema.ts';
import { siteOptions, sitesOptions } from './site-options.ts';
import { tenantDirectories } from './tenant-directories.ts';

const nextSignIn = 'the next sign-in';
const nextRequest = 'the next request';

/** Grains that usually have a different value on each minion. */
const lateGrains: readonly string[] = [
  'id',
  'fqdn',
  'fqdns',
  'host',
  'localhost',
  'nodename',
  'fqdn_ip4',
  'fqdn_ip6',
  'ipv4',
  'ipv6',
  'ip_interfaces',
  'ip4_interfaces',
  'ip6_interfaces',
  'hwaddr_interfaces',
  'machine_id',
  'serialnumber',
  'server_id',
  'uuid',
];

export const ownOptions = {
  stateDir: option(
    'state_dir',
    text({ expected: 'a path' }),
    '/var/lib/saltbridge',
    'Directory of the embedded store.',
    { base: 'root_dir' },
  ),
  socket: option(
    'socket',
    text({ expected: 'a path' }),
    'saltbridge.sock',
    'Socket of the local interface.',
    { base: 'root_dir', defaultText: '`<sock_dir>/saltbridge.sock`' },
  ),
  api: option('api', httpApi, null, "Salt's HTTP API, in place of `rest_cherrypy`.", {
    defaultText: '`rest_cherrypy`',
    extension: 'salt-api',
  }),
  eventRing: option(
    'event_ring',
    eventRing,
    null,
    'Storage of the latest events for readers that reconnect.',
    { defaultText: '10,000 events and 32 MiB if the HTTP API is served, otherwise none' },
  ),
  audit: option(
    'audit',
    auditOptions,
    defaultsOf<AuditOptions>(auditOptions),
    "The log of users' actions.",
  ),
  eventExport: option(
    'event_export',
    eventExports,
    [],
    'Destinations of events: webhooks, files and NATS.',
    { extension: 'export' },
  ),
  exportBytes: option(
    'export_bytes',
    bytes(65_536, 2 ** 40),
    256 * mebibyte,
    'Maximum size of the events that wait for an export.',
    { extension: 'export' },
  ),
  git: option(
    'git',
    gitLimits,
    defaultsOf(gitLimits),
    'The git program, and limits on repositories.',
    {
      extension: 'files',
    },
  ),
  httpQuery: option(
    'http_query',
    httpQueryOptions,
    defaultsOf(httpQueryOptions),
    'Services that the runner `http.query` may request.',
    { extension: 'runners' },
  ),
  bridge: option(
    'bridge',
    bridgeMap,
    null,
    'The bridge: catalog of commands, signals, enrolment, guests. Relative paths are relative to the configuration directory.',
    { base: 'configuration', extension: 'bridge', defaultText: 'no bridge' },
  ),
  cluster: option('cluster', clusterOptions, null, 'Membership in a cluster on NATS JetStream.', {
    extension: 'cluster',
    defaultText: 'no cluster',
    migration: 'Replaces `cluster_id` and the related options.',
  }),
  site: option('site', siteOptions, null, 'Makes this master the master of a site; see edge.md.', {
    extension: 'edge',
    defaultText: 'no site',
  }),
  sites: option(
    'sites',
    sitesOptions,
    null,
    'Makes this master the centre of sites; see edge.md.',
    { extension: 'edge', defaultText: 'no sites' },
  ),
  minionIds: option(
    'minion_ids',
    oneOf(['strict', 'salt']),
    'strict',
    'Ids that new minions may have. `strict`: letters and digits of any script, `.`, `-`, `_`, `:`, `@` and `+`; `salt`: every id that Salt accepts.',
    { reload: 'the next new key' },
  ),
  publishSerialBlock: option(
    'publish_serial_block',
    integer(1, many),
    1000,
    'Number of serial numbers for publications that one write reserves.',
  ),
  reconnectWaitSeconds: option(
    'reconnect_wait',
    integer(0, 60, { unit: 'seconds' }),
    3,
    'How long a publication waits for minions that reconnect after a restart of the master.',
  ),
  takeoverAfterSeconds: option(
    'takeover_after',
    integer(1, 3600, { unit: 'seconds' }),
    15,
    'Time without a response after which another process of `joinMaster` ends the process that runs the shared master, and runs the master itself.',
  ),
  holderWaitSeconds: option(
    'holder_wait',
    integer(1, 3600, { unit: 'seconds' }),
    45,
    'How long a call waits, in addition to `takeover_after`, until another process of `joinMaster` runs the shared master.',
  ),
  confirmOpenMode: option('confirm_open_mode', flag(), false, 'Confirms `open_mode`.', {
    reload: nextSignIn,
  }),
  confirmAutoEauth: option(
    'confirm_auto_eauth',
    flag(),
    false,
    'Confirms the use of the eauth `auto`.',
    {
      reload: 'the next log-in',
    },
  ),
  mineTrustsGrains: option(
    'mine_trusts_grains',
    flag(),
    false,
    'Whether conditions on grains in `allow_tgt` can grant access to the mine. A minion can claim any grains, so by default such conditions can only deny access.',
    { extension: 'mine' },
  ),
  pillarTrustsGrains: option(
    'pillar_trusts_grains',
    flag(),
    true,
    'Whether pillar may depend on grains that a minion sends. If false, templates and top files can use only the id, and targets by grains match no minion.',
    { extension: 'pillar' },
  ),
  pillarLateGrains: option(
    'pillar_late_grains',
    textList(),
    lateGrains,
    'Grains that usually differ between all minions. If a pillar template only prints them, minions that differ in nothing else share one rendering, and the values are filled in for each minion.',
    { extension: 'pillar' },
  ),
  leftOutExtPillar: option(
    'left_out_ext_pillar',
    textList(),
    [],
    'Unsupported modules of `ext_pillar` whose data minions do not need. For every other unsupported module, the pillar contains `_errors`, and minions refuse to run states.',
    { extension: 'pillar' },
  ),
  tenants: option(
    'tenants',
    tenantDirectories,
    {},
    'Configuration directories, by name, of the masters that `saltbridge master` runs instead of this one. Relative paths are relative to the configuration directory.',
    { base: 'configuration', program: { instead: 'call createMaster for each' } },
  ),
  reactions: option('reactions', reactions, [], 'Reactions to events, by name.', {
    reload: 'the next event, the next run',
    extension: 'reactor',
  }),
  relay: option(
    'relay',
    relayOptions,
    null,
    'Ports for relays, which send the source of a connection in a PROXY header.',
    { defaultText: 'no ports' },
  ),
};

/** Options under `saltbridge: limits:`. They limit the requests of a single minion or address. */
export const limitOptions = {
  requestsPerSecond: option(
    'requests_per_second',
    integer(0, many),
    50,
    'Requests of a minion in a second. Further requests are delayed. 0: no limit.',
    { reload: nextRequest },
  ),
  eventsPerSecond: option(
    'events_per_second',
    integer(0, many),
    20,
    'Events of a minion in a second. Further events are dropped. 0: no limit.',
    { reload: 'the next event' },
  ),
  burst: option(
    'burst',
    integer(1, many),
    200,
    'Requests, and events, that a minion may send at once.',
    {
      reload: nextRequest,
    },
  ),
  requestBytes: option(
    'request_bytes',
    bytes(1024, megabytes100),
    16 * mebibyte,
    'Maximum size of a request.',
  ),
  returnBytes: option(
    'return_bytes',
    bytes(1024, megabytes100),
    16 * mebibyte,
    'Maximum size of a return that is stored completely.',
    { reload: 'the next return' },
  ),
  storedReturnBytes: option(
    'stored_return_bytes',
    bytes(0, 2 ** 50),
    null,
    'Disk space of all stored returns. Each user who starts jobs may use at most as much as is free, and each minion a part of the share of each user. 0: no limit.',
    {
      defaultText:
        'two thirds of the size of the store and of the free space of its disk; 4 GiB if this size is unknown',
    },
  ),
  eventBytes: option(
    'event_bytes',
    bytes(1024, megabytes100),
    mebibyte,
    'Maximum size of an event of a minion.',
    { reload: 'the next event' },
  ),
  fileBytesPerSecond: option(
    'file_bytes_per_second',
    bytes(0, many),
    64 * mebibyte,
    'Bytes of files sent to a minion before its file requests are delayed. Bursts may be twice as large. Each request counts as at least 16 KiB. 0: no limit.',
    { extension: 'files' },
  ),
  pushedBytes: option(
    'pushed_bytes',
    bytes(0, 2 ** 50),
    64 * mebibyte,
    'Size of all files that a minion has pushed. Each file and directory counts as at least 4 KiB. 0: no limit.',
    { extension: 'files' },
  ),
  pushedFiles: option(
    'pushed_files',
    integer(0, many),
    4096,
    'Files and directories that a minion has pushed. 0: no limit.',
    { extension: 'files' },
  ),
  pillarSteps: option(
    'pillar_steps',
    integer(1000, many),
    1_000_000,
    'Steps of rendering one pillar file: statements, loop iterations, calls and accessed elements.',
    { extension: 'pillar' },
  ),
  orchestrations: option(
    'orchestrations',
    integer(1, 1000),
    16,
    'Orchestrations at a time, including nested ones.',
    { extension: 'orchestration' },
  ),
  orchestrationStates: option(
    'orchestration_states',
    integer(1, 100_000),
    2000,
    'Maximum number of states of one orchestration.',
    { extension: 'orchestration' },
  ),
  orchestrationSeconds: option(
    'orchestration_seconds',
    integer(1, 2_000_000, { unit: 'seconds' }),
    86_400,
    'Time after which an orchestration is stopped.',
    { extension: 'orchestration' },
  ),
  grainsBytes: option(
    'grains_bytes',
    bytes(1024, megabytes100),
    mebibyte,
    'Maximum size of the grains of a minion.',
  ),
  authsPerSecond: option(
    'auths_per_second',
    integer(0, many),
    20,
    'Sign-ins in a second of unknown or failing ids from one address. 0: no limit.',
    { reload: nextSignIn },
  ),
  mineBytes: option(
    'mine_bytes',
    bytes(1024, megabytes100),
    mebibyte,
    'Maximum size of the mine of a minion, including names.',
    { extension: 'mine' },
  ),
  mineValueBytes: option(
    'mine_value_bytes',
    bytes(1024, megabytes100),
    65_536,
    'Maximum size of the value of one function in the mine.',
    { extension: 'mine' },
  ),
  mineReplyBytes: option(
    'mine_reply_bytes',
    bytes(1024, megabytes100),
    16 * mebibyte,
    'Maximum size of the mine data that one request may read.',
    { extension: 'mine' },
  ),
  pendingKeys: option(
    'pending_keys',
    integer(0, many),
    500,
    'Maximum number of pending keys. 0: no limit.',
    { reload: 'the next new key' },
  ),
  keyBits: option(
    'key_bits',
    integer(2048, 8192),
    4096,
    'Size of a key that a caller may request, in bits. Generating 8,192 bits takes many seconds.',
  ),
  pendingKeysPerAddress: option(
    'pending_keys_per_address',
    integer(0, many),
    64,
    'Maximum number of pending keys from one address. 0: no limit.',
    { reload: 'the next new key' },
  ),
};

/** Options of the policy, under `saltbridge: acl:`. */
export const aclOptions = {
  signals: option('signals', signalRules, [], 'Tags that minions may emit.', {
    reload: 'the next event',
  }),
  rules: option('rules', policyRules, [], 'Rules of the policy, by name.', { reload: nextRequest }),
  mode: option(
    'mode',
    oneOf(['enforce', 'learn']),
    'enforce',
    'With `learn`, minions may perform the actions in `learn_actions`, unless a rule denies it.',
    { reload: nextRequest },
  ),
  learnActions: option(
    'learn_actions',
    list(oneOf(['signal', 'publish', 'runner', 'mine', 'file-send', 'key'])),
    ['signal', 'mine'],
    'Actions that `learn` permits. Actions that are not among the defaults give power over other minions and the master.',
    { reload: nextRequest },
  ),
  recordData: option(
    'record_data',
    flag(),
    true,
    'Whether decisions are recorded with sealed examples of data and arguments. If false, only their shapes are recorded.',
    { reload: nextRequest },
  ),
};
