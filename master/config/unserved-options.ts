/**
 * Options of Salt's master (salt/config/__init__.py of 3007.0, and a few that other modules of
 * Salt read) that have no effect here yet. Those of returners and the like, which are named
 * `<module>.<option>`, are known by their dot.
 */
const names = `
  max_minions tcp_keepalive_cnt tcp_keepalive_intvl user
  archive_jobs auth_mode auth_safemode azurefs
  azurefs_update_interval cache cache_sreqs clean_dynamic_modules
  cli_summary client_acl client_acl_verify cluster_id
  cluster_key_pass cluster_mode cluster_peers cluster_pki_dir
  con_cache cython_enable decrypt_pillar decrypt_pillar_default
  decrypt_pillar_delimiter decrypt_pillar_renderers default_top detect_remote_minions
  discovery django_auth_path django_auth_settings drop_messages_signature_fail
  dummy_pub eauth_acl_module eauth_tokens enable_gpu_grains
  enable_ssh_minions engines env_order
  environment event_match_type event_publisher_niceness event_return
  event_return_blacklist event_return_niceness event_return_queue event_return_queue_max_seconds
  event_return_whitelist ext_job_cache ext_pillar ext_pillar_first
  extension_modules external_auth external_nodes extmod_blacklist
  extmod_whitelist failhard features file_buffer_size
  file_client file_ignore_glob file_ignore_regex file_recv
  file_recv_max_size file_roots fileserver_backend fileserver_followsymlinks
  fileserver_ignoresymlinks fileserver_interval fileserver_limit_traversal fileserver_list_cache_time
  fileserver_update_niceness fileserver_verify_config fips_mode git_pillar_base
  git_pillar_branch git_pillar_env git_pillar_fallback git_pillar_global_lock
  git_pillar_includes git_pillar_insecure_auth git_pillar_passphrase git_pillar_password
  git_pillar_privkey git_pillar_pubkey git_pillar_refspecs git_pillar_root
  git_pillar_ssl_verify git_pillar_update_interval git_pillar_user git_pillar_verify_config
  gitfs_base gitfs_disable_saltenv_mapping gitfs_fallback gitfs_global_lock
  gitfs_insecure_auth gitfs_mountpoint gitfs_passphrase gitfs_password
  gitfs_privkey gitfs_pubkey gitfs_ref_types gitfs_refspecs
  gitfs_remotes gitfs_root gitfs_saltenv gitfs_saltenv_blacklist
  gitfs_saltenv_whitelist gitfs_ssl_verify gitfs_update_interval gitfs_user
  gpg_cache gpg_cache_backend gpg_cache_ttl gpg_decrypt_must_succeed
  halite hgfs_base hgfs_branch_method hgfs_mountpoint
  hgfs_remotes hgfs_root hgfs_saltenv_blacklist hgfs_saltenv_whitelist
  hgfs_update_interval http_connect_timeout http_max_body http_request_timeout
  ipc_mode ipc_write_buffer jinja_env jinja_lstrip_blocks
  jinja_sls_env jinja_trim_blocks job_cache_store_endtime keep_acl_in_token
  key_cache key_logfile keys.cache_driver local
  lock_saltenv log_datefmt log_datefmt_logfile log_fmt_console
  log_fmt_jid log_fmt_logfile log_granular_levels log_rotate_backup_count
  log_rotate_max_bytes maintenance_interval maintenance_niceness master_job_cache
  master_pubkey_signature master_roots master_stats master_stats_event_iter
  master_tops master_tops_first master_use_pubkey_signature max_open_files
  memcache_debug memcache_expire_seconds memcache_full_cleanup memcache_max_items
  min_extra_mods minionfs_blacklist minionfs_env
  minionfs_mountpoint minionfs_update_interval minionfs_whitelist module_dirs
  mworker_niceness mworker_queue_niceness netapi_allow_raw_shell netapi_enable_clients
  on_demand_ext_pillar optimization_order order_masters
  outputter_dirs pass_dir pass_gnupghome pass_strict_fetch
  pass_variable_prefix permissive_acl
  pidfile pillar_cache pillar_cache_backend pillar_cache_ttl
  pillar_includes_override_sls pillar_merge_lists pillar_opts pillar_raise_on_missing
  pillar_roots pillar_safe_render_error pillar_source_merging_strategy pillar_version
  pillarenv presence_events pub_server_niceness
  publisher_acl publisher_acl_blacklist queue_dirs range_server
  reactor reactor_niceness reactor_refresh_interval reactor_worker_hwm
  reactor_worker_threads regen_thin remote_minions_port renderer
  renderer_blacklist renderer_whitelist req_server_niceness request_server_aes_session
  require_minion_sign_messages rest_cherrypy rest_tornado rest_wsgi
  roots_update_interval roster roster_defaults roster_file
  rosters runner_dirs s3fs_update_interval
  salt_cp_chunk_size saltenv schedule sdb
  search serial show_jid show_timeout
  signing_key_pass sock_pool_size sqlite_queue_dir ssh_config_file
  ssh_identities_only ssh_list_nodegroups ssh_log_file ssh_minion_opts
  ssh_minions_list ssh_passwd ssh_port ssh_priv_passwd
  ssh_run_pre_flight ssh_scan_ports ssh_scan_timeout ssh_sudo
  ssh_sudo_user ssh_timeout ssh_update_roster ssh_use_home_key
  ssh_user ssl state_aggregate state_auto_order
  state_events state_output state_output_diff state_output_profile
  state_top state_top_saltenv state_verbose sudo_acl
  svnfs_branches svnfs_mountpoint svnfs_remotes svnfs_root
  svnfs_saltenv_blacklist svnfs_saltenv_whitelist svnfs_tags svnfs_trunk
  svnfs_update_interval syndic_dir syndic_event_forward_timeout syndic_failover
  syndic_forward_all_events syndic_jid_forward_cache_hwm syndic_log_file syndic_master
  syndic_master_port syndic_pidfile syndic_user syndic_wait
  tcp_master_pub_port tcp_master_publish_pull tcp_master_pull_port tcp_master_workers
  test thin_extra_mods thorium_interval thorium_roots
  thorium_top thoriumenv token_dir token_expire
  token_expire_user_override top_file top_file_merging_strategy utils_dirs
  verify_env winrepo_branch winrepo_cachefile winrepo_dir
  winrepo_dir_ng winrepo_fallback winrepo_insecure_auth winrepo_passphrase
  winrepo_password winrepo_privkey winrepo_provider winrepo_pubkey
  winrepo_refspecs winrepo_remotes winrepo_remotes_ng winrepo_source_dir
  winrepo_ssl_verify winrepo_user worker_threads zmq_monitor
`;

const unserved: ReadonlySet<string> = new Set(names.trim().split(/\s+/));

/** Whether Salt has an option of this name that is not served yet. */
export function isUnservedOption(name: string): boolean {
  return unserved.has(name) || /^[a-z_0-9]+\.[a-z_0-9.]+$/.test(name);
}
