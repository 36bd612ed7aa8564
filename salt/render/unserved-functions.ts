/**
 * This module lists the template functions of Salt that this master does not offer, with the reason
 * or an alternative.
 */

const onMinion = 'it changes a machine; call it in a state, which the minion renders';
const files =
  'templates cannot read files outside the roots; use slsutil.file_exists or cp.get_file_str with salt://, or pillar.file_exists';
const addresses =
  'it would describe the host of the master; use network.ip_in_subnet with addresses from grains, or match.ipcidr';
const secrets =
  'use sdb.get with a profile of the master, or minion_http in ext_pillar: see docs/pillar.md';

/** Reasons why template functions are not offered, by full function name or by module. */
const reasons: Readonly<Record<string, string>> = {
  cmd: 'templates of the master cannot run commands; write files on a timer and read them with minion_files, see docs/pillar.md',
  consul: secrets,
  'cp.get_file': 'it writes to the disk; use cp.get_file_str',
  'cp.get_url': 'it writes to the disk; use cp.get_file_str',
  'defaults.get': 'it reads files of Python modules; use import_yaml',
  disk: onMinion,
  dnsutil: 'templates cannot resolve names; store the addresses in pillar or the mine',
  environ:
    'the environment of the master may contain secrets; use sdb.get with a profile of the driver env',
  etcd: secrets,
  file: files,
  git: 'use gitfs or ext_pillar: git, see docs/gitfs.md',
  http: 'use minion_http in ext_pillar, or the runner http.query, see docs/pillar.md',
  'mine.update': 'it acts on minions; use the runner mine.update',
  mysql: secrets,
  network: addresses,
  'pillar.ext':
    'use it in a template of pillar or of an orchestration, or configure sources in ext_pillar, see docs/pillar.md',
  pkg: onMinion,
  postgres: secrets,
  publish: 'use saltutil.cmd in an orchestration, or the mine',
  'random.hash': 'use hashutil.sha256_digest of random.get_str',
  'random.rand_int': 'use the filter random',
  'random.seed': 'use the filter random_shuffle with seed',
  'random.shadow_hash':
    'store the hash in pillar: with a new salt at each rendering, states would always change',
  'saltutil.cmd': 'pillar is compiled for each request of a minion; use it in an orchestration',
  'saltutil.wheel': 'pillar is compiled for each request of a minion; use it in an orchestration',
  saltutil: 'use the runner or the function on minions: salt ID saltutil.sync_all',
  'sdb.set': 'templates cannot write; use the runner sdb.set',
  service: onMinion,
  status: onMinion,
  system: onMinion,
  user: onMinion,
  vault: secrets,
  x509: 'the master does not create certificates; use x509 in a state with a signing minion',
};

/**
 * Reason why a function is not available, if neither the function nor its module is in `reasons`.
 */
const elsewhere = 'templates do not have this function';

/** Returns why a template function is not available, with an alternative if there is one. */
export function insteadOfFunction(fun: string): string {
  const [module = ''] = fun.split('.');
  const name = [fun, module].find((each) => Object.hasOwn(reasons, each));
  return (name === undefined ? undefined : reasons[name]) ?? elsewhere;
}

/**
 * Names of functions and modules of Salt that templates cannot use, sorted. For each,
 * {@link insteadOfFunction} returns a specific reason.
 */
export const unservedFunctions: readonly string[] = Object.keys(reasons).sort();
