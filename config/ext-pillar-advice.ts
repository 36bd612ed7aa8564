/** Alternatives to Salt's modules of `ext_pillar`. */

const repositories =
  'check the repository out with a timer or a hook, and add the directory to pillar_roots';
const commands =
  'the master runs no commands for pillar: let a timer write their output to one file per minion, for minion_files';
const overHttp =
  'minion_http requests pillar from a service, with {id} in the address and its host under hosts';
const trees =
  'write the data as files in pillar_roots, or let the tool write one file per minion, for minion_files';
const services =
  'use a program that fetches the data: one that serves it over HTTP for minion_http, one that writes files for minion_files, or a source of extPillar in a program that calls createMaster';
const own =
  'files in pillar_roots can read the grains, and match.compound supports nodegroups (N@name)';

/**
 * Alternatives to Salt's `ext_pillar` modules that this master does not have, by the name of the
 * module [salt/pillar/].
 */
export const extPillarAdvice: ReadonlyMap<string, string> = new Map([
  ...rows(repositories, 'hg svn'),
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

function rows(text: string, modules: string): [module: string, advice: string][] {
  return modules.split(' ').map((module) => [module, text]);
}
