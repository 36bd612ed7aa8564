/** Marks an option of Salt for which the operator always gets advice, whatever its value is. */
export const anyValue: unique symbol = Symbol('any value');

/** Options of Salt's master that share one piece of advice. */
export interface AdviceGroup {
  /** Alternative to the options, or the reason why this master does not need them. */
  readonly advice: string;
  /**
   * Whether the options only adjust details of a feature. `migrate check` reports such options as
   * ignored. Default: false.
   */
  readonly isDetail?: boolean;
  /**
   * Options by name, each with the value for which no advice is given. This is usually Salt's
   * default. With the value `anyValue`, advice about the option is always given.
   */
  readonly options: Readonly<Record<string, unknown>>;
}

/**
 * Options of Salt's minion that Salt's master does not read. Files that configure both programs may
 * contain them.
 */
export const minionOptions: readonly string[] = [
  'acceptance_wait_time',
  'acceptance_wait_time_max',
  'add_proxymodule_to_opts',
  'always_verify_signature',
  'append_minionid_config_dirs',
  'auth_timeout',
  'auth_tries',
  'autoload_dynamic_modules',
  'backup_mode',
  'beacons_before_connect',
  'bootstrap_delay',
  'cache_jobs',
  'cmd_safe',
  'disable_modules',
  'disable_returners',
  'disabled_requisites',
  'enable_fqdns_grains',
  'enable_legacy_startup_events',
  'enable_lspci',
  'enable_zip_modules',
  'encryption_algorithm',
  'global_state_conditions',
  'grains',
  'grains_blacklist',
  'grains_dirs',
  'grains_refresh_every',
  'grains_refresh_pre_exec',
  'id_function',
  'master',
  'master_alive_interval',
  'master_failback',
  'master_failback_interval',
  'master_finger',
  'master_port',
  'master_shuffle',
  'master_tries',
  'master_type',
  'master_uri_format',
  'mine_enabled',
  'mine_interval',
  'mine_return_job',
  'minion_id_caching',
  'minion_id_lowercase',
  'minion_id_remove_domain',
  'minion_jid_queue_hwm',
  'minion_restart_command',
  'minion_sign_messages',
  'modules_max_memory',
  'multifunc_ordered',
  'multiprocessing',
  'no_proxy',
  'pass_to_ext_pillars',
  'password',
  'pillarenv_from_saltenv',
  'ping_interval',
  'process_count_max',
  'providers',
  'proxy_always_alive',
  'proxy_deep_merge_pillar_in_opts',
  'proxy_host',
  'proxy_keep_alive',
  'proxy_keep_alive_interval',
  'proxy_merge_grains_in_module',
  'proxy_merge_pillar_in_opts',
  'proxy_merge_pillar_in_opts_strategy',
  'proxy_mines_pillar',
  'proxy_password',
  'proxy_port',
  'proxy_username',
  'pub_ret',
  'random_master',
  'random_reauth_delay',
  'random_startup_delay',
  'recon_default',
  'recon_max',
  'recon_randomize',
  'rejected_retry',
  'render_dirs',
  'request_channel_timeout',
  'request_channel_tries',
  'resolve_dns_fallback',
  'retry_dns',
  'retry_dns_count',
  'return_retry_timer',
  'return_retry_timer_max',
  'return_retry_tries',
  'returner_dirs',
  'scheduler_before_connect',
  'signing_algorithm',
  'sls_list',
  'snapper_states',
  'snapper_states_config',
  'source_address',
  'source_interface_name',
  'source_publish_port',
  'source_ret_port',
  'ssh_merge_pillar',
  'startup_states',
  'state_queue',
  'states_dirs',
  'sudo_user',
  'syndic_finger',
  'tcp_authentication_retries',
  'tcp_pub_port',
  'tcp_pull_port',
  'tcp_reconnect_backoff',
  'update_restart_services',
  'update_url',
  'use_master_when_local',
  'username',
  'verify_master_pubkey_sign',
  'whitelist_modules',
  'winrepo_cache_expire_max',
  'winrepo_cache_expire_min',
];

/** Options that this master does not need. */
export const notNeeded: readonly AdviceGroup[] = [
  // Options of the git libraries that Salt uses. This master runs the program git instead.
  {
    advice: 'git fetches the repositories itself; for ssh, only the private key is needed',
    options: {
      gitfs_global_lock: true,
      gitfs_provider: anyValue,
      gitfs_pubkey: anyValue,
      git_pillar_global_lock: true,
      git_pillar_provider: anyValue,
      pillar_gitfs_ssl_verify: anyValue,
      git_pillar_pubkey: anyValue,
      git_pillar_verify_config: true,
    },
  },
  // Options of Salt's processes and threads.
  {
    advice:
      'a single process replaces the worker processes of salt-master; there is nothing to tune',
    options: {
      worker_threads: 5,
      event_publisher_niceness: null,
      fileserver_update_niceness: null,
      maintenance_niceness: null,
      mworker_niceness: null,
      mworker_queue_niceness: null,
      pub_server_niceness: null,
      reactor_niceness: null,
      reactor_refresh_interval: 60,
      req_server_niceness: null,
      ipc_mode: 'ipc',
      ipc_write_buffer: anyValue,
      tcp_master_pub_port: 4512,
      tcp_master_publish_pull: 4514,
      tcp_master_pull_port: 4513,
      tcp_master_workers: 4515,
      sock_pool_size: 1,
      reactor_worker_hwm: 10000,
      reactor_worker_threads: 10,
      con_cache: false,
      memcache_debug: false,
      memcache_expire_seconds: 0,
      memcache_full_cleanup: false,
      memcache_max_items: 1024,
      zmq_monitor: false,
      cython_enable: false,
      optimization_order: [0, 1, 2],
      maintenance_interval: 3600,
    },
  },
  // Options of Salt's internals.
  {
    advice: 'this option tunes internals of Salt that this master does not have',
    options: {
      local: true,
      cache_sreqs: true,
      dummy_pub: false,
      serial: 'msgpack',
      auth_mode: 1,
      auth_safemode: anyValue,
      request_server_aes_session: 0,
      verify_env: true,
      features: {},
      event_match_type: 'startswith',
      clean_dynamic_modules: true,
      detect_remote_minions: false,
      remote_minions_port: 22,
      master_stats: false,
      master_stats_event_iter: 60,
      file_client: 'local',
      enable_gpu_grains: false,
    },
  },
  // Storage of log-ins and tokens.
  {
    advice: 'the store holds tokens by their digests, and no key files are created for users',
    options: {
      client_acl_verify: true,
      eauth_tokens: 'localfs',
      token_dir: anyValue,
    },
  },
  // HTTP requests that Salt's master makes.
  {
    advice: 'the master makes no web requests of this kind',
    options: {
      http_connect_timeout: 20.0,
      http_max_body: 107374182400,
      http_request_timeout: 3600.0,
    },
  },
];

const otherFiles =
  'files come from directories and from git: check the source out or mount it, and add the directory to file_roots, or use gitfs';

const exportedEvents =
  'use saltbridge: event_export to send events, including returns, to a webhook, a file or NATS';

/** Options that this master does not support. */
export const notServed: readonly AdviceGroup[] = [
  // File backends that are not supported.
  {
    advice: otherFiles,
    options: {
      hgfs_remotes: [],
      svnfs_remotes: [],
      azurefs: anyValue,
      minionfs_env: 'base',
      minionfs_mountpoint: '',
      minionfs_whitelist: [],
    },
  },
  {
    advice: otherFiles,
    isDetail: true,
    options: {
      hgfs_base: 'default',
      hgfs_branch_method: 'branches',
      hgfs_mountpoint: '',
      hgfs_root: '',
      hgfs_saltenv_blacklist: [],
      hgfs_saltenv_whitelist: [],
      hgfs_update_interval: 60,
      svnfs_branches: 'branches',
      svnfs_mountpoint: '',
      svnfs_root: '',
      svnfs_saltenv_blacklist: [],
      svnfs_saltenv_whitelist: [],
      svnfs_tags: 'tags',
      svnfs_trunk: 'trunk',
      svnfs_update_interval: 60,
      s3fs_update_interval: 60,
      azurefs_update_interval: 60,
      minionfs_blacklist: [],
      minionfs_update_interval: 60,
    },
  },
  // Passphrases of keys for ssh.
  {
    advice: 'the master cannot enter a passphrase: use a key without one, or an ssh-agent',
    isDetail: true,
    options: { gitfs_passphrase: '', git_pillar_passphrase: '' },
  },
  // Package definitions for Windows (`winrepo`).
  {
    advice:
      'the master has no copy of the Windows package definitions: put the files into file_roots; minions do the rest',
    options: {
      winrepo_branch: 'master',
      winrepo_cachefile: 'winrepo.p',
      winrepo_dir: '/srv/salt/win/repo',
      winrepo_dir_ng: '/srv/salt/win/repo-ng',
      winrepo_fallback: '',
      winrepo_mastercachefile: anyValue,
      winrepo_insecure_auth: false,
      winrepo_passphrase: '',
      winrepo_password: '',
      winrepo_privkey: '',
      winrepo_provider: anyValue,
      winrepo_pubkey: '',
      winrepo_refspecs: ['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*'],
      winrepo_remotes: ['https://github.com/saltstack/salt-winrepo.git'],
      winrepo_remotes_ng: ['https://github.com/saltstack/salt-winrepo-ng.git'],
      winrepo_source_dir: anyValue,
      winrepo_ssl_verify: true,
      winrepo_user: '',
    },
  },
  // `salt-ssh`.
  {
    advice: 'salt-ssh is not supported: run it from a separate Salt installation, with its roster',
    isDetail: true,
    options: {
      ssh_config_file: anyValue,
      ssh_identities_only: false,
      ssh_list_nodegroups: {},
      ssh_log_file: '/var/log/salt/ssh',
      ssh_minion_opts: anyValue,
      ssh_minions_list: anyValue,
      ssh_passwd: '',
      ssh_port: '22',
      ssh_priv_passwd: '',
      ssh_run_pre_flight: anyValue,
      ssh_scan_ports: '22',
      ssh_scan_timeout: 0.01,
      ssh_sudo: false,
      ssh_sudo_user: '',
      ssh_timeout: 60,
      ssh_update_roster: anyValue,
      ssh_use_home_key: false,
      ssh_user: 'root',
      roster: anyValue,
      roster_defaults: anyValue,
      roster_file: anyValue,
      rosters: anyValue,
      enable_ssh_minions: false,
      regen_thin: false,
      thin_exclude_saltexts: false,
      thin_extra_mods: '',
      thin_saltext_allowlist: null,
      thin_saltext_blocklist: [],
      min_extra_mods: '',
    },
  },
  // Thorium, Salt's complex reactor.
  {
    advice: 'thorium is not supported: subscribe to the events in a service instead',
    options: {
      thorium_interval: 0.5,
      thorium_roots: { base: ['/srv/thorium'] },
      thorium_top: 'top.sls',
      thoriumenv: null,
    },
  },
  // Python modules on the master.
  {
    advice:
      'the master cannot load Python modules: do their work in the service that calls createMaster; put minion modules into file_roots',
    options: {
      module_dirs: [],
      outputter_dirs: [],
      queue_dirs: [],
      runner_dirs: [],
      utils_dirs: [],
      extension_modules: anyValue,
      extmod_blacklist: {},
      extmod_whitelist: {},
      engines: [],
      master_tops: {},
      master_tops_first: false,
      external_nodes: anyValue,
      search: '',
      master_roots: { base: ['/srv/salt-master'] },
      sqlite_queue_dir: anyValue,
      sdb: anyValue,
      pass_dir: '',
      pass_gnupghome: '',
      pass_strict_fetch: false,
      pass_variable_prefix: '',
      django_auth_path: '',
      django_auth_settings: '',
      eauth_acl_module: '',
    },
  },
  // Former names of options.
  {
    advice: 'renamed to publisher_acl in Salt 2016.11',
    options: { client_acl: anyValue },
  },
  // Storage of jobs, keys and events outside of the master.
  {
    advice: exportedEvents,
    options: { event_return: '', ext_job_cache: '' },
  },
  {
    advice: exportedEvents,
    isDetail: true,
    options: {
      event_return_blacklist: [],
      event_return_niceness: null,
      event_return_queue: 0,
      event_return_queue_max_seconds: anyValue,
      event_return_whitelist: [],
    },
  },
  {
    advice:
      'jobs and keys are stored only in the store; use saltbridge: event_export to send returns elsewhere',
    options: {
      master_job_cache: 'local_cache',
      archive_jobs: false,
      cache: 'localfs',
      key_cache: '',
      'keys.cache_driver': 'localfs_key',
      job_cache_store_endtime: false,
    },
  },
  // Clusters of masters.
  {
    advice:
      'masters form a cluster with saltbridge: cluster, over NATS JetStream; see docs/cluster.md',
    options: {
      cluster_id: null,
      cluster_key_pass: null,
      cluster_mode: false,
      cluster_peers: [],
      cluster_pki_dir: null,
      cluster_pool_port: 4520,
    },
  },
  // Syndics: masters that a higher master controls.
  {
    advice: 'syndics are not supported: let the upper service call this master',
    options: {
      syndic_dir: anyValue,
      syndic_event_forward_timeout: 0.5,
      syndic_failover: 'random',
      syndic_forward_all_events: false,
      syndic_jid_forward_cache_hwm: 100,
      syndic_log_file: '/var/log/salt/syndic',
      syndic_master: 'masterofmasters',
      syndic_master_port: anyValue,
      syndic_pidfile: '/var/run/salt-syndic.pid',
      syndic_user: anyValue,
      syndic_wait: 5,
      order_masters: false,
    },
  },
  // Log levels and formats.
  {
    advice:
      'there are no Python modules to set a level for: filter the log lines by their component',
    isDetail: true,
    options: {
      log_granular_levels: {},
    },
  },
  {
    advice: 'log lines are JSON as pino writes it; read them with pino-pretty',
    isDetail: true,
    options: {
      log_fmt_console: '[%(levelname)-8s] %(message)s',
      log_fmt_logfile:
        '%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s',
      log_fmt_jid: '[JID: %(jid)s]',
      log_datefmt: '%H:%M:%S',
      log_datefmt_logfile: '%Y-%m-%d %H:%M:%S',
    },
  },
  // Log rotation.
  {
    advice: 'let logrotate move the file and send SIGUSR1',
    isDetail: true,
    options: {
      log_rotate_backup_count: 0,
      log_rotate_max_bytes: 0,
    },
  },
  // Log file of `salt-key`.
  {
    advice: 'key changes are logged in log_file and published as events',
    isDetail: true,
    options: {
      key_logfile: '/var/log/salt/key',
    },
  },
  // Keep-alive probes of TCP.
  {
    advice:
      'Node.js sends ten probes, one second apart, and cannot change that; tcp_keepalive and tcp_keepalive_idle are supported',
    isDetail: true,
    options: {
      tcp_keepalive_cnt: -1,
      tcp_keepalive_intvl: -1,
    },
  },
  // Range targets.
  {
    advice: 'range targets are not supported: list the minions in nodegroups',
    options: {
      range_server: 'range:80',
    },
  },
  // Maximum number of open files.
  {
    advice: 'set the limit where the master is started: LimitNOFILE= in its unit, or ulimit -n',
    isDetail: true,
    options: {
      max_open_files: 100000,
    },
  },
  // FIPS mode.
  {
    advice: 'run Node.js in FIPS mode (--force-fips) and set the algorithms on the minions',
    options: {
      fips_mode: false,
    },
  },
  // Discovery of masters by minions.
  {
    advice: 'set the address of the master on the minions',
    options: {
      discovery: false,
    },
  },
  // Options that preset flags of Salt's commands.
  {
    advice: 'pass the flag to the command instead',
    isDetail: true,
    options: {
      batch_safe_limit: anyValue,
      batch_safe_size: anyValue,
      cli_summary: false,
      output_file: anyValue,
      return: '',
      state_compress_ids: false,
      state_output_pct: false,
      show_jid: false,
      show_timeout: true,
      state_output_diff: false,
      test: false,
    },
  },
];

/** Options that are not supported yet. When an option is implemented, remove it here. */
export const notYet: readonly AdviceGroup[] = [
  // File server.
  {
    advice: 'the file server supports the backends roots and gitfs',
    isDetail: true,
    options: {
      fileserver_events: false,
      fileserver_interval: 3600,
      fileserver_limit_traversal: false,
      fileserver_verify_config: true,
      roots_update_interval: 60,
      top_file: anyValue,
      saltenv: null,
      lock_saltenv: false,
      environment: anyValue,
      renderer_blacklist: [],
      renderer_whitelist: [],
    },
  },
  // Users' rights, and Salt's other HTTP APIs.
  {
    advice: "Salt's HTTP API is served with the options of rest_cherrypy, without the client ssh",
    options: {
      rest_tornado: anyValue,
      rest_wsgi: anyValue,
      netapi_allow_raw_shell: false,
      halite: anyValue,
    },
  },
  // Pillar.
  {
    advice:
      "pillar comes from pillar_roots or from the service's pillar provider; see docs/pillar.md",
    options: {
      pillar_cache: false,
      pillar_cache_backend: 'disk',
      pillar_cache_ttl: 3600,
      pillar_version: 2,
      decrypt_pillar: [],
      decrypt_pillar_default: 'gpg',
      decrypt_pillar_delimiter: ':',
      decrypt_pillar_renderers: ['gpg'],
      gpg_cache: false,
      gpg_cache_backend: 'disk',
      gpg_cache_ttl: 86400,
      gpg_decrypt_must_succeed: true,
    },
  },
];
