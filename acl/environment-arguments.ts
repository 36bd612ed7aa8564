/** Environments of files that the arguments of a call name. */

import type { Call } from './types.ts';

/**
 * Functions whose argument `saltenv` can be passed by position, by this position and by module
 * [salt/modules, releases 3005 to 3008].
 */
const functionsByPosition: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  0: {
    cp: 'cache_master list_master list_master_dirs list_master_symlinks list_minion list_states',
    pkg: 'get_repo_data',
    saltcheck: 'report_highstate_tests run_highstate_tests',
    saltutil:
      'mmodule sync_all sync_beacons sync_clouds sync_engines sync_executors sync_grains sync_log_handlers sync_matchers sync_modules sync_output sync_pillar sync_proxymodules sync_renderers sync_returners sync_sdb sync_serializers sync_states sync_thorium sync_tops sync_utils sync_wrapper',
  },
  1: {
    certutil: 'get_cert_serial',
    cp: 'cache_dest cache_dir cache_file cache_files get_file_str hash_file is_cached stat_file',
    debconf: 'set_file',
    docker: 'highstate',
    lowpkg: 'bin_pkg_info',
    pillar: 'file_exists',
    pkg: 'get_package_info mod_repo',
    saltcheck: 'run_state_tests',
    slsutil: 'dir_exists file_exists path_exists',
    state: 'orchestrate',
    winrepo: 'show_sls',
    yaml: 'lint',
  },
  2: {
    archive: 'is_encrypted',
    chroot: 'sls',
    cp: 'get_dir get_file get_url',
    docker: 'script script_retcode',
    file: 'get_diff source_list',
    iosconfig: 'clean',
    jenkins: 'create_job update_job',
    net: 'patch',
    pkg: 'install remove',
    slsutil: 'findup',
  },
  3: {
    capirca: 'get_filter_pillar',
    certutil: 'add_store del_store',
    ciscoconfparse: 'find_lines find_objects',
    cp: 'get_template',
    iosconfig: 'tree',
    napalm: 'config_merge_diff config_merge_text config_merge_tree',
    netacl: 'get_filter_pillar',
    pkg: 'set_selections',
    pkg_resource: 'parse_targets',
    ssh: 'check_key_file rm_auth_key_from_file set_auth_key_from_file',
    textfsm: 'extract',
  },
  4: {
    capirca: 'get_term_pillar',
    ciscoconfparse: 'filter_lines',
    debconf: 'set_template',
    file: 'apply_template_on_contents get_source_sum',
    iosconfig: 'diff_text diff_tree merge_diff merge_text merge_tree',
    kubernetes: 'replace_configmap replace_secret',
    napalm: 'scp_put',
    netacl: 'get_term_pillar load_policy_config',
    pkg: 'add_repo_key',
    pkgbuild: 'make_src_pkg',
    saltutil: 'runner',
    scp: 'put',
    tomcat: 'deploy_war',
  },
  5: {
    capirca: 'get_policy_config',
    ciscoconfparse:
      'find_lines_w_child find_lines_wo_child find_objects_w_child find_objects_wo_child',
    k8s: 'update_secret',
    kubernetes: 'create_configmap create_secret replace_deployment',
    napalm: 'nxos_api_config pyeapi_config',
    net: 'load_template',
    netacl: 'load_term_config',
    nxos: 'config',
    nxos_api: 'config',
    pkgbuild: 'make_src_pkg',
    pyeapi: 'config',
  },
  6: {
    aptly: 'set_repo',
    archive: 'list',
    capirca: 'get_term_config',
    jira: 'create_issue',
    k8s: 'create_secret',
    kubernetes: 'create_deployment create_pod create_service replace_service',
    netacl: 'load_filter_config',
    netmiko: 'send_config',
    pillar: 'get',
    win_pki: 'import_cert',
  },
  7: {
    aptly: 'new_repo',
    capirca: 'get_filter_config',
    git: 'pull',
    lxd: 'image_from_file',
  },
  8: {
    file: 'check_file_meta',
    git: 'submodule',
    lxd: 'container_file_put',
    pip: 'uninstall',
    pkgbuild: 'build',
    textfsm: 'index',
  },
  9: {
    file: 'get_managed manage_file',
    git: 'push',
    pkg: 'install',
    virt: 'init',
  },
  10: {
    git: 'fetch remote_refs',
  },
  11: {
    file: 'check_managed check_managed_changes',
    git: 'clone',
    rsync: 'rsync',
  },
  12: {
    git: 'ls_remote',
    net: 'load_config',
  },
  13: {
    cmd: 'script_retcode',
  },
  14: {
    virtualenv: 'create',
  },
  16: {
    cmd: 'powershell powershell_all run_bg',
  },
  17: {
    cmd: 'retcode script',
  },
  18: {
    cmd: 'shell',
  },
  19: {
    cmd: 'run run_all run_stderr run_stdout',
  },
  21: {
    cmd: 'run_chroot',
  },
  36: {
    pip: 'install',
  },
};

/** Positions of the argument `saltenv` of each function. */
const positions: ReadonlyMap<string, readonly number[]> = readPositions();

function readPositions(): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, readonly number[]>();
  for (const [position, modules] of Object.entries(functionsByPosition)) {
    for (const [module, names] of Object.entries(modules)) {
      for (const name of names.split(' ')) {
        const fun = `${module}.${name}`;
        found.set(fun, [...(found.get(fun) ?? []), Number(position)]);
      }
    }
  }
  return found;
}

/**
 * Returns the environments that a call names: in its argument `saltenv`, by name or by position,
 * and in addresses of files such as `salt://app.conf?saltenv=test` [salt/utils/url.py]. Functions
 * that Salt does not contain can have `saltenv` at positions that are not known here.
 */
export function environmentsOf({ fun, args, kwargs }: Call): readonly string[] {
  const given = [kwargs.get('saltenv'), ...(positions.get(fun) ?? []).map((at) => args[at])];
  const inAddresses = [...args, ...kwargs.values()].flatMap((text) =>
    Array.from(text.matchAll(/\?saltenv=([^'"\s]*)/g), ([, name = '']) => name),
  );
  // Functions such as `saltutil.sync_all` accept several environments, separated by commas.
  return [...given, ...inAddresses].flatMap(
    (text) => text?.split(',').map((it) => it.trim()) ?? [],
  );
}
