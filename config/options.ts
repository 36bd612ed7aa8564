/**
 * The master's options. Names, units and defaults are those of Salt's master configuration
 * (salt/config/__init__.py, 3007.0) where Salt has the option; which name is which is in
 * option-table.ts.
 */

import type { PolicyRule } from '#acl';
import type { Nodegroups, WireMap } from '#minion-protocol';
import type { ClusterOptions } from './cluster-options.ts';
import type { EventExport } from './event-export.ts';
import type { ExtPillarEntry } from './ext-pillar.ts';
import type { BackendName } from './fileserver-backend.ts';
import type { GitLimits, GitOptions } from './git-options.ts';
import type { HttpApiOptions } from './http-api-options.ts';
import type { HttpQueryOptions } from './http-query-options.ts';
import type { LogLevel } from './log-level.ts';
import type { MergeStrategy } from './merge-strategies.ts';
import type { Permissions } from './permissions.ts';
import type { Reaction } from './reaction.ts';
import type { RelayOptions } from './relay-options.ts';
import type { SdbProfile } from './sdb-profiles.ts';

/** Salt's `hash_type`: digests of key fingerprints and files. */
export type HashType = 'md5' | 'sha1' | 'sha224' | 'sha256' | 'sha384' | 'sha512';

/** Bounds on what one minion or one address may ask. 0 switches a bound off where it says so. */
export interface Limits {
  /** `requests_per_second`: requests of a minion before they are delayed. Default 50; 0: off. */
  readonly requestsPerSecond: number;
  /** `events_per_second`: events of a minion before they are dropped. Default 20; 0: off. */
  readonly eventsPerSecond: number;
  /** `burst`: how many requests, and events, may come at once. Default 200. */
  readonly burst: number;
  /** `request_bytes`: largest request. Default 16 MiB, at most 100 MB. */
  readonly requestBytes: number;
  /** `return_bytes`: largest return that is kept whole. Default 16 MiB, at most 100 MB. */
  readonly returnBytes: number;
  /** `event_bytes`: largest event of a minion. Default 1 MiB, at most 100 MB. */
  readonly eventBytes: number;
  /**
   * `file_bytes_per_second`: bytes of files to a minion before its requests for files are delayed;
   * twice as many may come at once, and each request counts as 16 KiB at least. They count against
   * nothing else. Default 64 MiB; 0: off.
   */
  readonly fileBytesPerSecond: number;
  /**
   * `pushed_bytes`: files that a minion may have pushed, all together; each of them, and each folder,
   * counts as 4 KiB at least. Default 64 MiB; 0: off.
   */
  readonly pushedBytes: number;
  /** `pushed_files`: how many they may be, folders among them. Default 4096; 0: off. */
  readonly pushedFiles: number;
  /** `grains_bytes`: largest set of grains of a minion. Default 1 MiB, at most 100 MB. */
  readonly grainsBytes: number;
  /**
   * `pillar_steps`: what rendering one file of pillar may take: statements, turns of loops, calls
   * and elements that are touched. Default 100,000, some hundredths of a second.
   */
  readonly pillarSteps: number;
  /** `orchestrations`: orchestrations that run at once, those within others counted. Default 16. */
  readonly orchestrations: number;
  /** `orchestration_states`: states that one may have. Default 2000. */
  readonly orchestrationStates: number;
  /** `orchestration_seconds`: when one is ended that still runs. Default 86,400, a day. */
  readonly orchestrationSeconds: number;
  /** `auths_per_second`: sign-ins of unknown or failing ids an address. Default 20; 0: off. */
  readonly authsPerSecond: number;
  /** `mine_bytes`: the whole mine of a minion, names included. Default 1 MiB, at most 100 MB. */
  readonly mineBytes: number;
  /** `mine_value_bytes`: one function's value in it. Default 64 KiB, at most 100 MB. */
  readonly mineValueBytes: number;
  /** `mine_reply_bytes`: what one request may read from mines. Default 16 MiB, at most 100 MB. */
  readonly mineReplyBytes: number;
  /** `pending_keys`: keys that wait for acceptance. Default 500; 0: off. */
  readonly pendingKeys: number;
  /** `pending_keys_per_address`: those from one address. Default 64; 0: off. */
  readonly pendingKeysPerAddress: number;
}

/**
 * Tags that minions may emit besides those of their own lifecycle. In a file, each is a map with
 * these names.
 */
export interface SignalRule {
  /**
   * `tag`: a glob, as in `reactor:`. It has at least one letter or digit. `${minion.id}` and
   * `${pillar:path}` stand for the sender's own; wildcards stand after the last of them only.
   */
  readonly tag: string;
  /** `minions`: a glob on ids. Default `*`. */
  readonly minions: string;
  /** `name`: what it is called where a decision is explained. Default: by its tag. */
  readonly name?: string;
  /** `schema`: JSON Schema of what is said with it. Default: anything. */
  readonly schema?: unknown;
  /** `bytes`: largest event. Default: `event_bytes`. */
  readonly bytes?: number;
  /** `rate`: how often a minion may, `10/minute`. Default: `events_per_second`. */
  readonly rate?: string;
  /** `expires`: ISO 8601. Default: never. */
  readonly expires?: string;
}

/** `saltbridge:acl`: what is permitted. */
export interface AclOptions {
  /** `signals`: what minions may emit. Default: none. */
  readonly signals: readonly SignalRule[];
  /**
   * `rules`: the policy. In files a map by the names of rules; in programs what `allow` and `deny`
   * of `saltbridge/acl` make. Default: none.
   */
  readonly rules: readonly PolicyRule[];
  /**
   * `mode`: with `learn`, minions may do of {@link AclOptions.learnActions} what no rule permits
   * and a rule could; rules that deny hold. Default `enforce`.
   */
  readonly mode: 'enforce' | 'learn';
  /**
   * `learn_actions`: what `learn` permits. Default `signal` and `mine`: the others give power over
   * other minions and the master, and are recorded without being permitted.
   */
  readonly learnActions: readonly LearnAction[];
  /**
   * `record_data`: keep examples of what minions say and of arguments with the decisions, sealed.
   * Default true; false: their shapes alone.
   */
  readonly recordData: boolean;
}

/** A complete, checked configuration. Paths are absolute. */
export interface MasterConfig extends GitOptions {
  /** `interface`: address that both ports are bound to. Default `0.0.0.0`. */
  readonly interface: string;
  /** `ipv6`: `interface` is an IPv6 address. Default `null`: told by the address itself. */
  readonly ipv6: boolean | null;
  /** `publish_port`: port of publications. Default 4505; 0: any free one. */
  readonly publishPort: number;
  /** `ret_port`: port of requests. Default 4506; 0: any free one. */
  readonly retPort: number;
  /** `transport`: `zeromq`, `tcp` or `ws`. Default `zeromq`. */
  readonly transport: TransportName;
  /** `transport_opts`: more transports, each with ports of its own. Default: none. */
  readonly transportOpts: TransportOpts;
  /** `ssl`: TLS for `tcp` and `ws`; ZeroMQ has none. Default false. */
  readonly ssl: SslOptions | false;
  /** `id`: name of this master. Default `<host name>_master`. Numbers are taken as text. */
  readonly id: string;
  /** `master_id`: put into publications, for a master of masters. Default `null`: none. */
  readonly masterId: string | null;

  /**
   * `user`: account that `saltbridge master` runs as, if root starts it. Default `null`: whoever
   * starts it. A service that makes a master in its own process stays who it is.
   */
  readonly user: string | null;
  /** `pidfile`: where `saltbridge master` keeps its process id. Default `/var/run/salt-master.pid`. */
  readonly pidfile: string;
  /**
   * `root_dir`: paths that are relative, and absolute ones that are not below it already, are
   * joined to it. Default `/`.
   */
  readonly rootDir: string;
  /** `conf_file`: the main file. Default `/etc/salt/master`; set by loading a directory. */
  readonly confFile: string;
  /** `pki_dir`: keys. Default `/etc/salt/pki/master`. */
  readonly pkiDir: string;
  /** `cachedir`: job cache, minion data, sessions. Default `/var/cache/salt/master`. */
  readonly cachedir: string;
  /**
   * `sock_dir`: local sockets. Default `/var/run/salt/master`; as in Salt `<cachedir>/.salt-unix`
   * if that is more than ten characters shorter, because socket paths are short.
   */
  readonly sockDir: string;

  /** `keysize`: bits of the master's RSA key when it is made. Default 2048, 2048 to 8192. */
  readonly keysize: number;
  /** `key_pass`: passphrase of `master.pem`. Default `null`: not encrypted. Secret. */
  readonly keyPass: string | null;
  /** `signing_key_pass`: that of the key of {@link masterSignPubkey}. Default `null`. Secret. */
  readonly signingKeyPass: string | null;
  /** `hash_type`: digest of fingerprints. Default `sha256`. */
  readonly hashType: HashType;
  /** `auto_accept`: accept every new key. Default false. */
  readonly autoAccept: boolean;
  /**
   * `open_mode`: accept every key, also another one of a known id. Default false; needs
   * {@link confirmOpenMode}.
   */
  readonly openMode: boolean;
  /** `autosign_file`: ids to accept, one expression a line. Default `null`: none. */
  readonly autosignFile: string | null;
  /** `autoreject_file`: ids to reject, one expression a line. Default `null`: none. */
  readonly autorejectFile: string | null;
  /** `autosign_grains_dir`: files of grain values that accept a minion. Default `null`: none. */
  readonly autosignGrainsDir: string | null;
  /** `autosign_timeout`: minutes a file in `minions_autosign` is good for. Default 120; 0: ever. */
  readonly autosignTimeout: number;
  /** `permissive_pki_access`: files above may be writable by the group. Default false. */
  readonly permissivePkiAccess: boolean;
  /** `auth_events`: fire `salt/auth`. Default true. */
  readonly authEvents: boolean;
  /**
   * `max_minions`: with more than so many connected, others are told to come later. Connected is
   * who was heard since the start and has a subscriber at its address. Default 0: off.
   */
  readonly maxMinions: number;
  /** `allow_minion_key_revoke`: a minion may delete its own key. Default false; Salt: true. */
  readonly allowMinionKeyRevoke: boolean;
  /**
   * `minimum_auth_version`: lowest protocol version heard, 0 to 3. Default `auto`: each id is
   * held to the highest it has proved; Salt: 3 in its latest releases.
   */
  readonly minimumAuthVersion: 'auto' | 0 | 1 | 2 | 3;
  /** `request_server_ttl`: seconds a request's time stamp may be off. Default 300; 0: off, as Salt. */
  readonly requestServerTtl: number;
  /** `require_minion_sign_messages`: returns without a signature are refused. Default false. */
  readonly requireMinionSignMessages: boolean;
  /**
   * `drop_messages_signature_fail`: returns whose signature does not verify are refused. Default
   * false: that is counted (`return-signature`) and logged only.
   */
  readonly dropMessagesSignatureFail: boolean;

  /** `publish_session`: seconds that the publish key and session keys last. Default 86400. */
  readonly publishSession: number;
  /** `rotate_aes_key`: a new publish key when a key is deleted or rejected. Default true. */
  readonly rotateAesKey: boolean;
  /** `ping_on_rotate`: publish `test.ping` to all after a rotation. Default false. */
  readonly pingOnRotate: boolean;
  /** `sign_pub_messages`: sign publications. Default true. */
  readonly signPubMessages: boolean;
  /** `publish_signing_algorithm`: how. Default `PKCS1v15-SHA1`. */
  readonly publishSigningAlgorithm: 'PKCS1v15-SHA1' | 'PKCS1v15-SHA224';
  /** `master_sign_pubkey`: vouch for the master's key with a second one. Default false. */
  readonly masterSignPubkey: boolean;
  /** `master_sign_key_name`: file name of that key, without `.pem`. Default `master_sign`. */
  readonly masterSignKeyName: string;
  /**
   * `master_use_pubkey_signature`: with {@link masterSignPubkey}, send the signature that was made
   * beforehand, so that the key that signs need not be here. Default false.
   */
  readonly masterUsePubkeySignature: boolean;
  /** `master_pubkey_signature`: its file, below `pki_dir`. Default `master_pubkey_signature`. */
  readonly masterPubkeySignature: string;

  /** `zmq_filtering`: publish to the matching minions alone. Default false. */
  readonly zmqFiltering: boolean;
  /** `zmq_backlog`: connections waiting to be taken. Default 1000. */
  readonly zmqBacklog: number;
  /** `pub_hwm`: publications queued for a slow subscriber. Default 1000. */
  readonly pubHwm: number;
  /** `tcp_keepalive`: probe idle connections. Default true. */
  readonly tcpKeepalive: boolean;
  /** `tcp_keepalive_idle`: seconds before the first probe. Default 300; -1: the system's. */
  readonly tcpKeepaliveIdle: number;

  /** `timeout`: seconds a caller waits for returns. Default 5. */
  readonly timeout: number;
  /** `gather_job_timeout`: seconds a minion has to say whether it still works. Default 10. */
  readonly gatherJobTimeout: number;
  /** `keep_jobs`: hours a job is kept, if `keep_jobs_seconds` is not set. Default 24. */
  readonly keepJobs: number;
  /** `keep_jobs_seconds`: seconds a job is kept. Default 86400, or those of `keep_jobs`. */
  readonly keepJobsSeconds: number;
  /** `job_cache`: keep jobs and returns. Default true. */
  readonly jobCache: boolean;
  /** `unique_jid`: add the process to job ids. Default false. */
  readonly uniqueJid: boolean;
  /**
   * `presence_events`: fire `salt/presence/present` every `loop_interval`, and
   * `salt/presence/change` when it was otherwise before. Default false.
   */
  readonly presenceEvents: boolean;
  /** `loop_interval`: seconds between rounds of maintenance. Default 60. */
  readonly loopInterval: number;
  /** `max_event_size`: bytes of an event on the bus; larger values are trimmed. Default 1048576. */
  readonly maxEventSize: number;

  /** `nodegroups`: names for compound expressions, which may name each other. Default: none. */
  readonly nodegroups: Nodegroups;
  /**
   * `minion_data_cache`: keep grains and pillar of minions, for targets that ask for them. Default
   * true; without it such targets match every accepted key.
   */
  readonly minionDataCache: boolean;
  /** `minion_data_cache_events`: fire `minion/refresh/<id>` for each. Default true. */
  readonly minionDataCacheEvents: boolean;
  /** `preserve_minion_cache`: keep them when the key is deleted. Default false. */
  readonly preserveMinionCache: boolean;

  /**
   * `file_roots`: directories that files are served from, by environment (`saltenv`); absolute,
   * with globs or without. Those of `__env__` serve every environment that has none of its own;
   * in them `__env__` stands for its name. Default `{ base: ['/srv/salt', '/srv/spm/salt'] }`.
   */
  readonly fileRoots: FileRoots;
  /**
   * `pillar_roots`: directories of pillar files by environment, written as `file_roots`; minions
   * are never given the files. Default `{ base: ['/srv/pillar', '/srv/spm/pillar'] }`.
   */
  readonly pillarRoots: FileRoots;
  /** `pillarenv`: the environment of minions that name none. Default null: all of them. */
  readonly pillarenv: string | null;
  /** `pillar_source_merging_strategy`: how files of pillar lie over each other. Default `smart`. */
  readonly pillarSourceMergingStrategy: MergeStrategy;
  /** `pillar_merge_lists`: lists of the same key are joined. Default false. */
  readonly pillarMergeLists: boolean;
  /** `pillar_includes_override_sls`: what is included wins over what includes it. Default false. */
  readonly pillarIncludesOverrideSls: boolean;
  /** `pillar_safe_render_error`: minions are not told what is wrong with a file. Default true. */
  readonly pillarSafeRenderError: boolean;
  /** `pillar_raise_on_missing`: `pillar.get` in pillar fails without a default. Default false. */
  readonly pillarRaiseOnMissing: boolean;
  /**
   * `ext_pillar`: sources of pillar beside the files, the later ones over the earlier. Default:
   * none. Headers in it are secret.
   */
  readonly extPillar: readonly ExtPillarEntry[];
  /** `ext_pillar_first`: they are asked first, and the files lie over them. Default false. */
  readonly extPillarFirst: boolean;
  /** `pillar_opts`: pillar has some of these options, as `master`. Default false. */
  readonly pillarOpts: boolean;
  /** `file_ignore_glob`: globs of paths that are not served. Default: none. */
  readonly fileIgnoreGlob: readonly string[];
  /** `file_ignore_regex`: expressions found in paths that are not served. Default: none. */
  readonly fileIgnoreRegex: readonly string[];
  /** `fileserver_followsymlinks`: list what is in directories that links lead to. Default true. */
  readonly fileserverFollowsymlinks: boolean;
  /** `schedule`: runners and jobs by the clock, by name. Default: none. */
  readonly schedule: WireMap;
  /** `fileserver_backend`: where files come from, the first first. Default `roots`. */
  readonly fileserverBackend: readonly BackendName[];
  /** `fileserver_ignoresymlinks`: list no links. Default false. */
  readonly fileserverIgnoresymlinks: boolean;
  /**
   * `fileserver_list_cache_time`: seconds between looks for changes of directories that the system
   * did not tell of. Default 20.
   */
  readonly fileserverListCacheTime: number;
  /** `file_buffer_size`: bytes of a file in one reply. Default 1048576. */
  readonly fileBufferSize: number;
  /** `file_recv`: minions may push files. Default false. */
  readonly fileRecv: boolean;
  /** `file_recv_max_size`: MiB of a pushed file. Default 100. */
  readonly fileRecvMaxSize: number;

  /** `top_file_merging_strategy`: told to minions, as all below. Default `merge`. */
  readonly topFileMergingStrategy: 'merge' | 'same' | 'merge_all';
  /** `env_order`: environments in the order of merging. Default: none. */
  readonly envOrder: readonly string[];
  /** `default_top`: environment whose top file stands in, with `same`. Default `base`. */
  readonly defaultTop: string;
  /** `renderer`: of state files. Default `jinja|yaml`. */
  readonly renderer: string;
  /** `failhard`: states end with the first failure. Default false. */
  readonly failhard: boolean;
  /** `state_top`: name of the top file. Default `top.sls`. */
  readonly stateTop: string;
  /** `state_top_saltenv`: take it from this environment alone. Default `null`: from all. */
  readonly stateTopSaltenv: string | null;
  /** `state_auto_order`: states run in the order of their files. Default true. */
  readonly stateAutoOrder: boolean;
  /** `state_events`: an event for each state. Default false. */
  readonly stateEvents: boolean;
  /** `state_aggregate`: join states that can be, all or those of these modules. Default false. */
  readonly stateAggregate: boolean | readonly string[];
  /** `jinja_env`: options of Jinja for templates. Default: none. */
  readonly jinjaEnv: WireMap;
  /** `jinja_sls_env`: options of Jinja for state files. Default: none. */
  readonly jinjaSlsEnv: WireMap;
  /** `jinja_lstrip_blocks`: Default false. */
  readonly jinjaLstripBlocks: boolean;
  /** `jinja_trim_blocks`: Default false. */
  readonly jinjaTrimBlocks: boolean;
  /** `enforce_mine_cache`: keep the mine also without `minion_data_cache`. Default false. */
  readonly enforceMineCache: boolean;
  /**
   * `mine_get`: which minions may read which functions of others' mines: regular expressions on
   * ids, each with a list of those on functions. Default `null`: every minion may read every one.
   */
  readonly mineGet: Permissions | null;
  /**
   * `peer`: which minions may publish which functions: regular expressions on ids, each with a
   * list of those on functions, or of maps from a compound target to such a list. Functions may
   * have conditions: `{function: {args: […], kwargs: {…}}}`. Default: none may.
   */
  readonly peer: Permissions;
  /** `peer_run`: which minions may run which runners. Default: none may. */
  readonly peerRun: Permissions;
  /** `publisher_acl`: what accounts of this host may publish. Default: nothing. */
  readonly publisherAcl: Permissions;
  /** `publisher_acl_blacklist`: `users` and `modules` that are forbidden. Default: none. */
  readonly publisherAclBlacklist: Permissions;
  /** `external_auth`: what users may, by what authenticates them. Default: nothing. */
  readonly externalAuth: Permissions;
  /** `permissive_acl`: what `*` may in `external_auth`, those named may too. Default false. */
  readonly permissiveAcl: boolean;
  /** `runner_returns`: keep what runners returned that were started with nobody waiting. Default true. */
  readonly runnerReturns: boolean;

  /** `rest_cherrypy`: Salt's HTTP API. Default `null`: it is not served. */
  readonly restCherrypy: HttpApiOptions | null;
  /** `netapi_enable_clients`: those of the HTTP API. Default `null`: all; Salt: none. */
  readonly netapiEnableClients: readonly string[] | null;
  /** `rest_timeout`: seconds that the HTTP API waits for a runner. Default 300. */
  readonly restTimeout: number;

  /** `log_level`: what goes to the console. Default `warning`. */
  readonly logLevel: LogLevel;
  /** `log_level_logfile`: what goes to `log_file`. Default `null`: as `log_level`. */
  readonly logLevelLogfile: LogLevel | null;
  /** `log_file`: path, or an address such as `file:///dev/log`. Default `/var/log/salt/master`. */
  readonly logFile: string;
  /** `output`: the outputter of commands that print in Salt's form. Default `null`: what a function asks for. */
  readonly output: string | null;
  /** `color`: colours of those commands, also in a pipe. Default `null`: on a terminal alone. */
  readonly color: boolean | null;
  /** `state_output`: how they print states. Default `full`. */
  readonly stateOutput: string;
  /** `state_verbose`: they print states without changes as well. Default true. */
  readonly stateVerbose: boolean;
  /** `state_output_profile`: they print when a state began, and its duration. Default true. */
  readonly stateOutputProfile: boolean;
  /** `salt_cp_chunk_size`: bytes of a file that `salt-cp --chunked` sends at a time. Default 98,304. */
  readonly saltCpChunkSize: number;

  /** Log-ins and tokens. */
  readonly eauth: EauthOptions;
  /**
   * `saltgui_*` and a few more that SaltGUI reads from `config.values`: handed on as they are.
   * Default: none.
   */
  readonly saltgui: WireMap;
  /**
   * Profiles of `sdb://` by their names. In files each is an option of that name whose value is a map
   * with `driver`. Default: none.
   */
  readonly sdb: Readonly<Record<string, SdbProfile>>;
  /** `saltbridge:api`: the same as {@link restCherrypy}, and instead of it. Default `null`. */
  readonly api: HttpApiOptions | null;
  /**
   * `saltbridge:event_ring`: how many of the latest events are kept, so that who reads them can go
   * on where they stopped. Default `null`: 10,000 and 32 MiB where the HTTP API is served, else none.
   */
  readonly eventRing: EventRingOptions | null;
  /** `saltbridge:confirm_auto_eauth`: the eauth `auto` is meant. Default false. */
  readonly confirmAutoEauth: boolean;
  /** `saltbridge:state_dir`: the embedded store. Default `/var/lib/saltbridge`. */
  readonly stateDir: string;
  /** `saltbridge:socket`: local interface. Default `<sock_dir>/saltbridge.sock`. */
  readonly socket: string;
  /** `saltbridge:audit`: the log of who did what. */
  readonly audit: AuditOptions;
  /** `saltbridge:bridge`: read by `saltbridge/bridge`, not here. Default `null`. */
  readonly bridge: Readonly<Record<string, unknown>> | null;
  /** `saltbridge:cluster`: the masters that share a store. Default `null`: none do. */
  readonly cluster: ClusterOptions | null;
  /** `saltbridge:limits`. */
  readonly limits: Limits;
  /** `saltbridge:acl`. */
  readonly acl: AclOptions;
  /**
   * `saltbridge:minion_ids`: ids that new minions may have. `strict`: letters and digits of any
   * script, `.`, `-`, `_`, `:`, `@` and `+`; `salt`: whatever Salt takes. Default `strict`.
   */
  readonly minionIds: 'strict' | 'salt';
  /** `saltbridge:publish_serial_block`: serials reserved with one write. Default 1000. */
  readonly publishSerialBlock: number;
  /**
   * `saltbridge:reconnect_wait`: how long a publication is held for minions that had signed in
   * before the master was restarted and have not subscribed again, seconds. Default 3.
   */
  readonly reconnectWaitSeconds: number;
  /**
   * `saltbridge:takeover_after`: after how many seconds without an answer the process that holds
   * the state directory is ended by another one that shares it (`joinMaster`). Default 15.
   */
  readonly takeoverAfterSeconds: number;
  /**
   * `saltbridge:holder_wait`: for how many seconds beyond `takeover_after` a call of a process that
   * shares the master waits for the next one that holds it. Default 45.
   */
  readonly holderWaitSeconds: number;
  /** `saltbridge:confirm_open_mode`: `open_mode` is meant. Default false. */
  readonly confirmOpenMode: boolean;
  /**
   * `saltbridge:mine_trusts_grains`: conditions on grains in `allow_tgt` give the right to read, as
   * in Salt, although a minion can claim any grains. Default false: they can only take it away.
   */
  readonly mineTrustsGrains: boolean;
  /**
   * `pillar_trusts_grains`: pillar may depend on the grains that a minion sends, as in Salt. With
   * false, templates and top files see no grain but the id, and targets by grains mean nobody.
   * Default true.
   */
  readonly pillarTrustsGrains: boolean;
  /** `saltbridge:event_export`: where events go besides readers of the bus. Default: nowhere. */
  readonly eventExport: readonly EventExport[];
  /** `saltbridge:export_bytes`: events that may wait for that. Default 256 MiB. */
  readonly exportBytes: number;
  /** `saltbridge:http_query`: what the runner `http.query` may ask. Default: nothing. */
  readonly httpQuery: HttpQueryOptions;
  /** `saltbridge:git`: what git may be used for, and bounds on repositories. */
  readonly git: GitLimits;
  /**
   * `saltbridge:tenants`: configuration directories of masters that `saltbridge master` runs in
   * place of this one, by their names. One master does not look at it; see `loadTenants`.
   * Default: none.
   */
  readonly tenants: TenantDirectories;
  /**
   * `saltbridge:relay`: ports for relays, which say in a PROXY header whose connections they pass
   * on. They are those of `transport`. Default: none.
   */
  readonly relay: RelayOptions | null;
  /** `reactor`: files that say what follows from events. Default: none. */
  readonly reactor: readonly ReactorEntry[];
  /**
   * `saltbridge:reactions`: what follows from events. In files a map by the names of reactions; in
   * programs what `reaction` makes. Default: none.
   */
  readonly reactions: readonly Reaction[];
}

/** What a program may set; the rest has its default. */
export interface MasterOptions extends Omit<MasterConfig, 'limits' | 'acl' | 'audit' | 'eauth'> {
  readonly audit: Partial<AuditOptions>;
  readonly eauth: Partial<EauthOptions>;
  readonly limits: Partial<Limits>;
  readonly acl: Partial<AclOptions>;
}

/** How much a ring holds; what is older goes. */
export interface EventRingOptions {
  /** `entries`: events. */
  readonly entries: number;
  /** `bytes`: of all of them, packed. */
  readonly bytes: number;
}

/** Where a master's own store lies. */
export function storeDirectory(stateDir: string): string {
  return `${stateDir}/store`;
}

// Types of the options above; option-table.ts parses them.

/** What is kept of who did what. */
export interface AuditOptions {
  /** `enabled`: write the audit log. Default true. */
  readonly enabled: boolean;
  /** `file_bytes`: size of a file before the next one is begun. Default 64 MiB. */
  readonly fileBytes: number;
  /** `keep_files`: files that are kept, the oldest goes first. Default 16. */
  readonly keepFiles: number;
}

/** Directories by environment. */
export type FileRoots = Readonly<Record<string, readonly string[]>>;

/** What minions ask for that rules decide. */
export type LearnAction = 'signal' | 'publish' | 'runner' | 'mine' | 'file-send' | 'key';

/** What follows from events of some tags. */
export interface ReactorEntry {
  /** A glob on tags. */
  readonly tag: string;
  /** Files: `salt://…`, or absolute paths, which may have globs. */
  readonly sls: readonly string[];
}

/** Configuration directories by the names of tenants. */
export type TenantDirectories = Readonly<Record<string, string>>;

/** Options of log-ins and tokens. */
export interface EauthOptions {
  /** `token_expire`: seconds that a token lives. Default 43200. */
  readonly tokenExpire: number;
  /** `token_expire_user_override`: who may choose themselves. Default false. */
  readonly tokenExpireUserOverride: ExpireOverride;
  /** `keep_acl_in_token`: a token keeps what was granted when it was made. Default false. */
  readonly keepAclInToken: boolean;
  /** `sudo_acl`: who came by sudo may what `publisher_acl` says, if it is set. Default false. */
  readonly sudoAcl: boolean;
  /** `sharedsecret`: everybody's password, for the back end of that name. Default `null`. Secret. */
  readonly sharedsecret: string | null;
  /** `auth.pam.service`: the PAM service. Default `login`. */
  readonly pamService: string;
  /** `keystone.auth_url`: Keystone, version 3. Default `http://localhost:5000/v3`. */
  readonly keystoneAuthUrl: string;
  /** `auth.ldap.uri`: the server's address. Default `null`: from the next four. */
  readonly ldapUri: string | null;
  /** `auth.ldap.server`. Default `localhost`. */
  readonly ldapServer: string;
  /** `auth.ldap.port`. Default 389. */
  readonly ldapPort: number;
  /** `auth.ldap.starttls`: TLS on that port, before anything is said. Default false. */
  readonly ldapStarttls: boolean;
  /** `auth.ldap.tls`: TLS from the first byte (`ldaps`). Default false. */
  readonly ldapTls: boolean;
  /** `auth.ldap.no_verify`: take any certificate. Default false. */
  readonly ldapNoVerify: boolean;
  /** `auth.ldap.binddn`: account that searches; or, without a password, the user's own name. */
  readonly ldapBinddn: string | null;
  /** `auth.ldap.bindpw`: its password. Default `null`. Secret. */
  readonly ldapBindpw: string | null;
  /** `auth.ldap.filter`: finds the user; `{{ username }}` stands for the name. */
  readonly ldapFilter: string | null;
  /** `auth.ldap.basedn`: below which everything lies. Default: the root. */
  readonly ldapBasedn: string;
  /** `auth.ldap.scope`: 0 base, 1 one level, 2 all below. Default 2. */
  readonly ldapScope: number;
  /** `auth.ldap.anonymous`: search without an account. Default false. */
  readonly ldapAnonymous: boolean;
  /** `auth.ldap.auth_by_group_membership_only`: not served; it would ask for no password. */
  readonly ldapByGroupOnly: boolean;
  /** `auth.ldap.groupou`: below which groups lie. Default `Groups`; empty: the base. */
  readonly ldapGroupou: string;
  /** `auth.ldap.group_basedn`: the same, with `freeipa`. */
  readonly ldapGroupBasedn: string | null;
  /** `auth.ldap.group_filter`: finds the user's groups, with `freeipa`. */
  readonly ldapGroupFilter: string | null;
  /** `auth.ldap.accountattributename`: of a group: its members. Default `memberUid`. */
  readonly ldapAccountAttribute: string;
  /** `auth.ldap.groupattribute`: of a person: their groups. Default `memberOf`. */
  readonly ldapGroupAttribute: string;
  /** `auth.ldap.persontype`. Default `person`. */
  readonly ldapPersontype: string;
  /** `auth.ldap.groupclass`. Default `posixGroup`. */
  readonly ldapGroupclass: string;
  /** `auth.ldap.activedirectory`: groups as Active Directory has them. Default false. */
  readonly ldapActivedirectory: boolean;
  /** `auth.ldap.freeipa`: groups as FreeIPA has them. Default false. */
  readonly ldapFreeipa: boolean;
}

// Options of log-ins and tokens; Salt's, at the top level of a file.

/** Who may choose how long their token lives: everybody, nobody, or these by their eauth. */
export type ExpireOverride = boolean | Readonly<Record<string, readonly string[]>>;

/** Salt's `ssl`: TLS on the ports of `tcp` and `ws`. Paths are taken as they are. */
export interface SslOptions {
  /** `certfile`: the certificate with its chain, PEM. */
  readonly certfile: string;
  /** `keyfile`: its key, PEM. Default: in `certfile`. */
  readonly keyfile?: string;
  /** `ca_certs`: who signs the certificates of minions, PEM. */
  readonly caCerts?: string;
  /**
   * `cert_reqs`: whether a minion has to show a certificate. Default `CERT_NONE`; the others need
   * `ca_certs`. The name in it is not the minion's id.
   */
  readonly certReqs?: 'CERT_NONE' | 'CERT_OPTIONAL' | 'CERT_REQUIRED';
  /** `ssl_version`, by the names of Python. Default: TLS 1.2 and later. */
  readonly sslVersion?:
    | 'PROTOCOL_TLS'
    | 'PROTOCOL_TLS_SERVER'
    | 'PROTOCOL_SSLv23'
    | 'PROTOCOL_TLSv1_2';
  /** `ciphers`: OpenSSL's list. */
  readonly ciphers?: string;
}

/** Salt's names of the transports that are served. */
export type TransportName = 'zeromq' | 'tcp' | 'ws';

/** Salt's `transport_opts`: transports that are served besides `transport`, or otherwise. */
export type TransportOpts = { readonly [Name in TransportName]?: Partial<TransportOptions> };

/** Options that each transport may have for itself; the others are the master's. */
export type TransportOptions = Pick<
  MasterConfig,
  | 'interface'
  | 'ipv6'
  | 'publishPort'
  | 'retPort'
  | 'ssl'
  | 'zmqFiltering'
  | 'zmqBacklog'
  | 'pubHwm'
  | 'tcpKeepalive'
  | 'tcpKeepaliveIdle'
>;
