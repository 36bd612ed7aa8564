/** Functions that templates call under Salt and that are not served here, with what to do instead. */

const onMinion = 'it acts on the machine; use it in a state, which the minion renders';
const files =
  'files of the master outside of its roots are not read; use slsutil.file_exists or cp.get_file_str on salt://, or pillar.file_exists';
const addresses =
  'under Salt it asks the machine of the master; use network.ip_in_subnet with addresses of grains, or match.ipcidr';
const secrets =
  'use sdb.get with a profile of the master, or minion_http in ext_pillar: see docs/pillar.md';

/** Reasons by function, or by module. */
const reasons: Readonly<Record<string, string>> = {
  cmd: 'templates of the master run no commands; minion_files takes what a timer writes, see docs/pillar.md',
  consul: secrets,
  'cp.get_file': 'it writes to the disk; use cp.get_file_str',
  'cp.get_url': 'it writes to the disk; use cp.get_file_str',
  'defaults.get': 'it reads files beside Python modules; use import_yaml',
  disk: onMinion,
  dnsutil: 'names are not looked up for templates; write the addresses into pillar or the mine',
  environ:
    'the environment of the master may hold secrets; use sdb.get with a profile of the driver env',
  etcd: secrets,
  file: files,
  git: 'repositories are served by gitfs and ext_pillar: git, see docs/gitfs.md',
  http: 'use minion_http in ext_pillar, or the runner http.query, see docs/pillar.md',
  'mine.update': 'it acts on minions; use the runner mine.update',
  mysql: secrets,
  network: addresses,
  'pillar.ext': 'sources of pillar are those of ext_pillar, see docs/pillar.md',
  pkg: onMinion,
  postgres: secrets,
  publish: 'use saltutil.cmd in an orchestration, or the mine',
  'random.hash': 'use hashutil.sha256_digest of random.get_str',
  'random.rand_int': 'use the filter random',
  'random.seed': 'use the filter random_shuffle with seed',
  'random.shadow_hash':
    'keep the hash in pillar: a new one each time would change states each time',
  'saltutil.cmd': 'pillar is made for each request of a minion; use it in an orchestration',
  'saltutil.wheel': 'pillar is made for each request of a minion; use it in an orchestration',
  saltutil: 'use the runner or the function on minions: salt ID saltutil.sync_all',
  'sdb.set': 'templates only read; use the runner sdb.set',
  service: onMinion,
  status: onMinion,
  system: onMinion,
  user: onMinion,
  vault: secrets,
  x509: 'the master makes no certificates; use x509 in a state, with a signing minion',
};

/** For functions of other modules. */
const elsewhere = 'it is not among the functions that templates have here';

/** Why a function is not served, and what to use instead. */
export function insteadOfFunction(fun: string): string {
  const [module = ''] = fun.split('.');
  const name = [fun, module].find((each) => Object.hasOwn(reasons, each));
  return (name === undefined ? undefined : reasons[name]) ?? elsewhere;
}

/** Functions and modules with a reason of their own, sorted. */
export const unservedFunctions: readonly string[] = Object.keys(reasons).sort();
