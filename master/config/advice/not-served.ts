/** Options of Salt's master that are not served, and what to do instead. */
import { type AdviceGroup, anyValue } from './group.ts';

export const notServed: readonly AdviceGroup[] = [
  // Files from elsewhere.
  {
    advice:
      'files come from folders alone: check the repository out, or mount it, and name the folder in file_roots',
    options: {
      gitfs_base: 'master',
      gitfs_disable_saltenv_mapping: false,
      gitfs_fallback: '',
      gitfs_global_lock: true,
      gitfs_insecure_auth: false,
      gitfs_mountpoint: '',
      gitfs_passphrase: '',
      gitfs_password: '',
      gitfs_privkey: '',
      gitfs_provider: anyValue,
      gitfs_pubkey: '',
      gitfs_ref_types: ['branch', 'tag', 'sha'],
      gitfs_refspecs: ['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*'],
      gitfs_remotes: [],
      gitfs_root: '',
      gitfs_saltenv: [],
      gitfs_saltenv_blacklist: [],
      gitfs_saltenv_whitelist: [],
      gitfs_ssl_verify: true,
      gitfs_update_interval: 60,
      gitfs_user: '',
      hgfs_base: 'default',
      hgfs_branch_method: 'branches',
      hgfs_mountpoint: '',
      hgfs_remotes: [],
      hgfs_root: '',
      hgfs_saltenv_blacklist: [],
      hgfs_saltenv_whitelist: [],
      hgfs_update_interval: 60,
      svnfs_branches: 'branches',
      svnfs_mountpoint: '',
      svnfs_remotes: [],
      svnfs_root: '',
      svnfs_saltenv_blacklist: [],
      svnfs_saltenv_whitelist: [],
      svnfs_tags: 'tags',
      svnfs_trunk: 'trunk',
      svnfs_update_interval: 60,
      s3fs_update_interval: 60,
      azurefs: anyValue,
      azurefs_update_interval: 60,
      minionfs_blacklist: [],
      minionfs_env: 'base',
      minionfs_mountpoint: '',
      minionfs_update_interval: 60,
      minionfs_whitelist: [],
    },
  },
  // Pillar from git.
  {
    advice:
      "pillar comes from folders and from the service's own provider: check the repository out and name the folder in pillar_roots",
    options: {
      git_pillar_base: 'master',
      git_pillar_branch: 'master',
      git_pillar_env: '',
      git_pillar_fallback: '',
      git_pillar_global_lock: true,
      git_pillar_includes: true,
      git_pillar_insecure_auth: false,
      git_pillar_passphrase: '',
      git_pillar_password: '',
      git_pillar_privkey: '',
      git_pillar_provider: anyValue,
      pillar_gitfs_ssl_verify: anyValue,
      git_pillar_pubkey: '',
      git_pillar_refspecs: ['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*'],
      git_pillar_root: '',
      git_pillar_ssl_verify: true,
      git_pillar_update_interval: 60,
      git_pillar_user: '',
      git_pillar_verify_config: true,
    },
  },
  // Windows packages.
  {
    advice:
      "the master's copy of the Windows package definitions is not kept: put the files into file_roots, minions do the rest",
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
    advice: 'salt-ssh does not run here: use it from a Salt of its own, with its roster',
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
  // Thorium.
  {
    advice: 'thorium does not run here: let a service subscribe to the events',
    options: {
      thorium_interval: 0.5,
      thorium_roots: { base: ['/srv/thorium'] },
      thorium_top: 'top.sls',
      thoriumenv: null,
    },
  },
  // Modules in Python.
  {
    advice:
      'modules of the master in Python do not run here: do their work in the service that makes the master, and modules of minions lie in file_roots',
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
  // Renamed in Salt 2016.11.
  {
    advice: 'it is called publisher_acl',
    options: { client_acl: anyValue },
  },
  // Jobs, keys and data elsewhere.
  {
    advice:
      'jobs and events are kept in the store alone: let a service subscribe to the events and write them where they shall go',
    options: {
      event_return: '',
      event_return_blacklist: [],
      event_return_niceness: null,
      event_return_queue: 0,
      event_return_queue_max_seconds: anyValue,
      event_return_whitelist: [],
      ext_job_cache: '',
      master_job_cache: 'local_cache',
      archive_jobs: false,
      cache: 'localfs',
      key_cache: '',
      'keys.cache_driver': 'localfs_key',
      job_cache_store_endtime: false,
    },
  },
  // Several masters.
  {
    advice:
      'masters do not share a cluster yet: run one, or several with minions that know them all',
    options: {
      cluster_id: null,
      cluster_key_pass: null,
      cluster_mode: false,
      cluster_peers: [],
      cluster_pki_dir: null,
      cluster_pool_port: 4520,
    },
  },
  // A master below another.
  {
    advice: 'a syndic does not run here: let the upper service call this master',
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
  // The form of log lines.
  {
    advice:
      'log lines are JSON, each with its time, level and component: let a reader such as jq or journald give them their form',
    options: {
      log_fmt_console: '[%(levelname)-8s] %(message)s',
      log_fmt_jid: '[JID: %(jid)s]',
      log_fmt_logfile:
        '%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s',
      log_datefmt: '%H:%M:%S',
      log_datefmt_logfile: '%Y-%m-%d %H:%M:%S',
    },
  },
  // Levels by module.
  {
    advice:
      'there are no Python modules whose level could be set: filter the lines by their component',
    options: {
      log_granular_levels: {},
    },
  },
  // Rotation of the log.
  {
    advice: 'let logrotate move the file and send SIGUSR1',
    options: {
      log_rotate_backup_count: 0,
      log_rotate_max_bytes: 0,
    },
  },
  // The log of `salt-key`.
  {
    advice: 'changes of keys are in log_file and among the events',
    options: {
      key_logfile: '/var/log/salt/key',
    },
  },
  // Keep-alive.
  {
    advice:
      'Node.js sends ten probes, a second apart, and lets nobody change that; tcp_keepalive and tcp_keepalive_idle are served',
    options: {
      tcp_keepalive_cnt: -1,
      tcp_keepalive_intvl: -1,
    },
  },
  // Range.
  {
    advice: 'targets of type range are not there: name the minions in nodegroups',
    options: {
      range_server: 'range:80',
    },
  },
  // Open files.
  {
    advice: 'set it where the master is started: LimitNOFILE= in its unit, or ulimit -n',
    options: {
      max_open_files: 100000,
    },
  },
  // `salt-cp`.
  {
    advice: 'salt-cp is not there: lay the file into file_roots and call cp.get_file',
    options: {
      salt_cp_chunk_size: 98304,
    },
  },
  // FIPS.
  {
    advice: 'run Node.js in its FIPS mode (--force-fips) and set the algorithms in the minions',
    options: {
      fips_mode: false,
    },
  },
  // Discovery.
  {
    advice: 'set the master in the minions',
    options: {
      discovery: false,
    },
  },
  // Flags of commands.
  {
    advice: 'give the flag to the command instead',
    options: {
      batch_safe_limit: anyValue,
      batch_safe_size: anyValue,
      cli_summary: false,
      color: true,
      output: anyValue,
      output_file: anyValue,
      return: '',
      state_compress_ids: false,
      state_output_pct: false,
      show_jid: false,
      show_timeout: true,
      state_output: 'full',
      state_output_diff: false,
      state_output_profile: true,
      state_verbose: true,
      test: false,
    },
  },
];
