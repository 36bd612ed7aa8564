/** Functions of Salt's master that this master does not serve, and what to use instead. */

// Names of Salt's functions (3007.8, without site modules). With these lists, the master can
// distinguish functions that do not exist from functions that it does not serve.

const runnerNames = `
  asam.add_platform asam.list_platform_sets asam.list_platforms asam.remove_platform
  auth.del_token auth.mk_token bgp.neighbors cache.clear_all cache.clear_git_lock
  cache.clear_grains cache.clear_mine cache.clear_mine_func cache.clear_pillar cache.cloud
  cache.fetch cache.flush cache.grains cache.list cache.mine cache.pillar cache.store
  cloud.action cloud.create cloud.destroy cloud.full_query cloud.list_images
  cloud.list_locations cloud.list_sizes cloud.map_run cloud.profile cloud.query
  cloud.select_query config.get ddns.add_host ddns.create ddns.delete ddns.delete_host
  ddns.update digicert.del_cached_domain digicert.gen_csr digicert.gen_key
  digicert.get_certificate digicert.get_org_details digicert.list_domain_cache
  digicert.list_domains digicert.list_orders digicert.list_organizations digicert.list_requests
  digicert.order_certificate digicert.show_csrs digicert.show_organization digicert.show_rsa
  doc.execution doc.runner doc.wheel drac.poweroff drac.poweron drac.pxe drac.reboot
  drac.version error.error event.send f5.add_pool_member f5.check_member_pool f5.check_pool
  f5.check_virtualserver f5.create_pool f5.create_vs fileserver.clear_cache
  fileserver.clear_file_list_cache fileserver.clear_lock fileserver.dir_list
  fileserver.empty_dir_list fileserver.envs fileserver.file_list fileserver.lock
  fileserver.symlink_list fileserver.update git_pillar.update http.query http.update_ca_bundle
  jobs.active jobs.exit_success jobs.last_run jobs.list_job jobs.list_jobs jobs.list_jobs_filter
  jobs.lookup_jid jobs.master jobs.print_job launchd.write_launchd_plist lxc.cloud_init
  lxc.find_guest lxc.find_guests lxc.freeze lxc.info lxc.init lxc.list lxc.purge lxc.start
  lxc.stop lxc.unfreeze manage.alived manage.allowed manage.bootstrap manage.bootstrap_psexec
  manage.down manage.joined manage.key_regen manage.list_not_state manage.list_state
  manage.not_alived manage.not_allowed manage.not_joined manage.not_present manage.not_reaped
  manage.present manage.reaped manage.safe_accept manage.status manage.up manage.versions
  match.compound_matches mattermost.post_event mattermost.post_message mine.get mine.update
  nacl.dec nacl.dec_file nacl.enc nacl.enc_file nacl.keygen nacl.sealedbox_decrypt
  nacl.sealedbox_encrypt nacl.secretbox_decrypt nacl.secretbox_encrypt net.find net.findarp
  net.findmac net.interfaces net.lldp net.multi_find network.wol network.wollist
  network.wolmatch pagerduty.create_event pagerduty.list_incidents pagerduty.list_policies
  pagerduty.list_schedules pagerduty.list_services pagerduty.list_users pagerduty.list_windows
  pillar.clear_pillar_cache pillar.show_pillar pillar.show_pillar_cache pillar.show_top
  pkg.list_upgrades queue.delete queue.insert queue.insert_runner queue.list_items
  queue.list_length queue.list_queues queue.pop queue.process_queue queue.process_runner
  reactor.add reactor.delete reactor.is_leader reactor.list reactor.set_leader salt.cmd
  salt.execute saltutil.sync_all saltutil.sync_cache saltutil.sync_clouds
  saltutil.sync_eauth_tokens saltutil.sync_engines saltutil.sync_executors
  saltutil.sync_fileserver saltutil.sync_grains saltutil.sync_modules saltutil.sync_output
  saltutil.sync_pillar saltutil.sync_proxymodules saltutil.sync_queues saltutil.sync_renderers
  saltutil.sync_returners saltutil.sync_roster saltutil.sync_runners saltutil.sync_sdb
  saltutil.sync_serializers saltutil.sync_states saltutil.sync_thorium saltutil.sync_tops
  saltutil.sync_utils saltutil.sync_wheel saltutil.sync_wrapper sdb.delete sdb.get
  sdb.get_or_set_hash sdb.set spacewalk.addGroupsToKey spacewalk.api
  spacewalk.deleteAllActivationKeys spacewalk.deleteAllGroups spacewalk.deleteAllSystems
  spacewalk.unregister ssh.cmd state.event state.orch state.orch_show_sls state.orchestrate
  state.orchestrate_high state.orchestrate_show_sls state.orchestrate_single state.pause
  state.resume state.rm_pause state.set_pause state.sls state.soft_kill survey.diff survey.hash test.arg test.get_opts test.metasyntactic test.raw_arg
  test.sleep test.stdout_print test.stream thin.generate thin.generate_min vault.cleanup_auth
  vault.clear_cache vault.generate_new_token vault.generate_secret_id vault.generate_token
  vault.get_config vault.get_role_id vault.list_approles vault.list_entities vault.show_approle
  vault.show_entity vault.show_policies vault.sync_approles vault.sync_entities vault.unseal
  venafi.del_cached_domain venafi.list_domain_cache venafi.request venafi.show_cert
  virt.force_off virt.host_info virt.init virt.list virt.migrate virt.next_host virt.pause
  virt.purge virt.query virt.reset virt.resume virt.start virt.vm_info vistara.delete_device
  vmadm.get vmadm.is_running vmadm.list vmadm.nodes vmadm.reboot vmadm.start vmadm.stop
  winrepo.genrepo winrepo.update_git_repos
`;

const wheelNames = `
  config.apply config.update_config config.values error.error file_roots.find
  file_roots.list_env file_roots.list_roots file_roots.read file_roots.write key.accept
  key.accept_dict key.delete key.delete_dict key.finger key.finger_master key.gen key.gen_accept
  key.gen_keys key.gen_signature key.list key.list_all key.master_key_str key.name_match
  key.print key.reject key.reject_dict minions.connected pillar_roots.find pillar_roots.list_env
  pillar_roots.list_roots pillar_roots.read pillar_roots.write
`;

/** Names of all runner functions of Salt. */
export const saltRunners: ReadonlySet<string> = new Set(runnerNames.trim().split(/\s+/));

/** Names of all wheel functions of Salt. */
export const saltWheels: ReadonlySet<string> = new Set(wheelNames.trim().split(/\s+/));

/** Alternatives to runners, by function or by module. */
const insteadOfRunners: Readonly<Record<string, string>> = {
  asam: 'call its API from your orchestrating service',
  bgp: "run the function on proxy minions: salt '*' bgp.neighbors",
  'cache.clear_git_lock': 'not needed: an interrupted fetch leaves no lock',
  'cache.cloud': 'create machines with Heat, see docs/heat-plugin.md',
  cloud: 'create machines with Heat, see docs/heat-plugin.md',
  ddns: 'run the function on a minion: salt ID ddns.add_host',
  digicert: 'call its API from your orchestrating service',
  drac: 'run the function on a minion: salt ID dracr.server_power',
  error: 'it always fails; use test.arg to test a client',
  f5: 'run the function on a minion: salt ID bigip.list_pool',
  http: 'TLS uses the certificate authorities of Node.js, or ca_file in saltbridge: http_query: hosts',
  launchd: 'macOS services are not generated; see docs/running.md',
  lxc: 'run the function on the host of the containers: salt ID lxc.start',
  'manage.bootstrap': 'enrol machines as they boot: saltbridge enroll, see docs/enrolment.md',
  'manage.bootstrap_psexec':
    'enrol machines as they boot: saltbridge enroll, see docs/enrolment.md',
  'manage.key_regen': 'delete the keys (saltbridge key delete), then restart the minions',
  'manage.safe_accept':
    'compare the fingerprint yourself: saltbridge key accept ID --fingerprint FINGERPRINT',
  mattermost: 'send a signal to a webhook: see docs/signals.md',
  nacl: 'run the function on a minion: salt ID nacl.enc; the master stores no secrets for it',
  net: "run the functions on minions: salt '*' network.interfaces, network.arp, network.ip_addrs",
  network: 'run the function on a minion: salt ID network.wol MAC',
  pagerduty: 'send a signal to a webhook: see docs/signals.md',
  'pillar.clear_pillar_cache':
    'not needed: the master notices changed files; saltbridge pillar show compiles the pillar again',
  'pillar.show_pillar_cache': 'use saltbridge pillar show ID',
  pkg: "run the function on minions: salt '*' pkg.list_upgrades",
  reactor: 'not needed: only one master runs the reactors at a time, see docs/shared-master.md',
  spacewalk: 'call its API from your orchestrating service',
  ssh: 'enrol the machine as a minion: saltbridge enroll, see docs/enrolment.md',
  'state.orchestrate_high': 'write the states to a file and use state.orchestrate',
  'state.pause': 'orchestrations cannot be paused; state.soft_kill stops one before a state',
  'state.resume': 'orchestrations cannot be paused; state.soft_kill stops one before a state',
  'state.rm_pause': 'orchestrations cannot be paused; state.soft_kill stops one before a state',
  'state.set_pause': 'orchestrations cannot be paused; state.soft_kill stops one before a state',
  'test.get_opts': 'use config.get, or the wheel function config.values',
  test: 'use test.arg, test.sleep or test.stdout_print',
  thin: 'salt-ssh is not served: enrol the machine as a minion',
  vault: 'read from Vault with ext_pillar (minion_http): see docs/pillar.md',
  venafi: 'call its API from your orchestrating service',
  virt: 'run the function on the host of the machines: salt ID virt.start',
  vistara: 'call its API from your orchestrating service',
  vmadm: 'run the function on the host of the machines: salt ID vmadm.start',
  winrepo: "run the function on minions: salt '*' winrepo.genrepo",
};

const insteadOfWheels: Readonly<Record<string, string>> = {
  config: 'edit the configuration files and send SIGHUP',
  error: 'it always fails',
  key: 'use saltbridge salt-key',
  pillar_roots: 'edit the files of pillar_roots; saltbridge pillar show prints the result',
};

/** Advice for functions without an alternative in these tables. */
const elsewhere = 'docs/compatibility.md lists the served functions';

/**
 * Returns what to use instead of a runner of Salt, or `undefined` if Salt has no runner of this
 * name.
 */
export function insteadOfRunner(fun: string): string | undefined {
  return instead(fun, saltRunners, insteadOfRunners);
}

/**
 * Returns why no runner of this name can run: it does not exist, or this master does not serve it.
 * Returns `undefined` if the runner can run, and for all names that begin with `saltbridge_`, which
 * belong to the bridge.
 */
export function runnerProblem(fun: string): string | undefined {
  if (!saltRunners.has(fun)) {
    return fun.startsWith('saltbridge_') ? undefined : `unknown runner ${fun}`;
  }
  const { [fun]: advice } = insteadOfRunners;
  return advice === undefined ? undefined : `the runner ${fun} is not served: ${advice}`;
}

/**
 * Returns what to use instead of a wheel function of Salt, or `undefined` if Salt has none of this
 * name.
 */
export function insteadOfWheel(fun: string): string | undefined {
  return instead(fun, saltWheels, insteadOfWheels);
}

function instead(
  fun: string,
  known: ReadonlySet<string>,
  table: Readonly<Record<string, string>>,
): string | undefined {
  if (!known.has(fun)) return undefined;
  const [module = ''] = fun.split('.');
  const name = [fun, module].find((each) => Object.hasOwn(table, each));
  return name === undefined ? elsewhere : table[name];
}
