/** Options of Salt's master that nothing is lost without. */
import { type AdviceGroup, anyValue } from './group.ts';

export const notNeeded: readonly AdviceGroup[] = [
  // One process.
  {
    advice: "one process does the work of all of salt-master's; there is nothing to tune",
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
  // Salt's own machinery.
  {
    advice: "Salt's own machinery, which is not here",
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
  // Log-ins.
  {
    advice:
      'tokens are kept in the store, by their digests, and no files of keys are made for users',
    options: {
      client_acl_verify: true,
      eauth_tokens: 'localfs',
      token_dir: anyValue,
    },
  },
  // Requests of Salt's own to the web.
  {
    advice: 'the master fetches nothing from the web',
    options: {
      http_connect_timeout: 20.0,
      http_max_body: 107374182400,
      http_request_timeout: 3600.0,
    },
  },
];
