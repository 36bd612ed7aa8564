/** Salt's modules of `ext_pillar`, and what to do instead [salt/pillar/]. */

const repositories =
  'check the repository out by a timer or a hook, and name the folder in pillar_roots';
const commands =
  'nothing runs commands for pillar: let a timer write what they give to a file for each minion, for minion_files';
const overHttp = 'minion_http asks a service, with {id} in the address and its host under hosts';
const trees =
  'write it as files of pillar_roots, or let the tool write a file for each minion, for minion_files';
const services =
  'let a program fetch the data: one that answers over HTTP for minion_http, one that writes files for minion_files, or a source of extPillar in a program that makes the master';
const own =
  'files of pillar_roots see the grains, and match.compound knows the nodegroups (N@name)';

const advice: ReadonlyMap<string, string> = new Map([
  ...rows(repositories, 'git hg svn'),
  ...rows(commands, 'cmd_json cmd_yaml cmd_yamlex'),
  ...rows(overHttp, 'http_json http_yaml'),
  ...rows(trees, 'csv file_tree hiera makostack pepa reclass saltclass stack varstack'),
  ...rows(
    services,
    'cobbler confidant consul digicert django_orm ec2_pillar etcd foreman gpg libvirt mongo mysql',
  ),
  ...rows(
    services,
    'nacl netbox neutron pillar_ldap postgres puppet redis rethinkdb s3 sql_base sqlcipher sqlite3',
  ),
  ...rows(services, 'vault venafi virtkey vmware'),
  ...rows(own, 'extra_minion_data_in_pillar nodegroups'),
]);

/** What to do instead of one of Salt's modules; `undefined` where Salt has none of that name. */
export function extPillarAdvice(module: string): string | undefined {
  return advice.get(module);
}

function rows(text: string, modules: string): [module: string, advice: string][] {
  return modules.split(' ').map((module) => [module, text]);
}
