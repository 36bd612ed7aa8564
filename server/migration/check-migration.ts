/** The report on a salt-master's configuration: what would become of each thing that it uses. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import {
  type ConfigError,
  type ConfigSurvey,
  type ConfigWarning,
  enginePrefixes,
  findRenamedUses,
  type MasterConfig,
  moduleNames,
  optionStatus,
  planSignals,
  type RenamedUse,
  type Setting,
  type Settings,
  type SignalPlan,
  surveyMasterConfig,
  textsOf,
  unservedExtPillars,
  warnOfSdbProfile,
  withoutPlace,
} from '#config';
import {
  type KeyPlace,
  type KeySurvey,
  placeDirectories,
  type SurveyedKey,
  surveyKeys,
  surveyOwnKeys,
} from '#master/auth/index.ts';
import { isNewMinionId } from '#minion-protocol';
import type { MigrationFinding, MigrationOutcome } from './finding.ts';
import { planReactions, type ReactionPlan } from './reaction-plan.ts';
import {
  customModuleFindings,
  extensionFindings,
  findListeners,
  type Root,
  rendererFindings,
  rootsOf,
  unreadableFinding,
  walkFiles,
} from './site-files.ts';

// Parts of Salt that a configuration brings into use, by the option that does so: what they mean
// here while the option is not served. One that is served needs no row.

/** What to say of a part. */
interface Advice {
  readonly outcome: MigrationOutcome;
  readonly meaning: string;
  readonly remedy: string;
}

const fileServer = refused(
  'Minions get no files from this file server.',
  'Keep a salt-master for states, or let minions have their files locally (file_client: local).',
);
const gitFiles = refused(
  'No file server fetches from a repository.',
  'Check the repository out to a directory, by a timer or a hook, and name that in file_roots.',
);
const pillar = refused(
  "Salt's modules of external pillar are not asked; minion_files and minion_http are.",
  'Let a program write or serve the data of each minion for these two, or give createMaster a source of its own.',
);
const returner = refused(
  "Python returners do not run in the master; jobs and returns are in the master's own store.",
  'Send the events, returns among them, to a webhook, a file or NATS (saltbridge: event_export), or give the minions the returner.',
);
const api = refused(
  'Of the HTTP interfaces, that of rest_cherrypy is served.',
  'Give rest_cherrypy these options, or keep salt-api beside a salt-master.',
);
const syndic = refused(
  'This master neither is nor has a syndic.',
  'Let the minions behind the syndic connect to this master themselves.',
);
const cluster = refused(
  'Masters do not share their state.',
  'Run one master, or keep the cluster of salt-masters.',
);
const runners = refused(
  'Runners and other Python code of the master do not run.',
  'Call what they call from a program that uses the library, or keep a salt-master for them.',
);
const ssh = ignored(
  'salt-ssh is a program of its own and reads this itself.',
  'Keep salt-ssh where it is installed; it needs no master.',
);
const windowsRepository = refused(
  'The repository of Windows packages is served through the file server.',
  'Keep it with the files: check it out where minions find it.',
);
const tuning = ignored('It tunes processes or caches that do not exist here.', 'Remove it.');

const byOption: ReadonlyMap<string, Advice> = new Map([
  ...rows(
    fileServer,
    'file_roots master_roots minionfs_env minionfs_mountpoint minionfs_whitelist',
  ),
  ...rows(gitFiles, 'hgfs_remotes svnfs_remotes azurefs s3.buckets'),
  ...rows(pillar, 'ext_pillar on_demand_ext_pillar'),
  ...rows(
    refused(
      'Encrypted pillar is not decrypted.',
      'Decrypt it in the program that provides the pillar, or let minions decrypt with their own sdb.',
    ),
    'decrypt_pillar pass_dir pass_gnupghome',
  ),
  ...rows(returner, 'master_job_cache ext_job_cache event_return runner_returns'),
  ...rows(
    ignored(
      'It narrows event_return, in whose place is saltbridge: event_export.',
      'Narrow the events there, by match and exclude.',
    ),
    'event_return_whitelist event_return_blacklist event_return_queue event_return_queue_max_seconds',
  ),
  ...rows(
    refused(
      'Engines are Python processes of salt-master and do not run.',
      'Run what they do as a program that follows the events (saltbridge events --json).',
    ),
    'engines',
  ),
  ...rows(
    refused('Thorium does not run.', 'Follow the events with a program and act there.'),
    'thorium_roots thorium_top thorium_interval',
  ),
  ...rows(
    refused('Salt has renamed it.', 'Call it publisher_acl, publisher_acl_blacklist.'),
    'client_acl client_acl_blacklist',
  ),
  ...rows(api, 'rest_tornado rest_wsgi'),
  ...rows(
    refused(
      'Minions may not publish to each other.',
      'Publish from a service instead; every request of a minion is answered with nothing.',
    ),
    'peer peer_run',
  ),
  ...rows(syndic, 'syndic_master order_masters syndic_failover'),
  ...rows(cluster, 'cluster_id cluster_peers cluster_pki_dir'),
  ...rows(
    runners,
    'runner_dirs module_dirs queue_dirs utils_dirs outputter_dirs extension_modules extmod_whitelist extmod_blacklist',
  ),
  ...rows(
    refused(
      'Tops files do not come from outside.',
      'Give minions a top.sls that names their states.',
    ),
    'master_tops external_nodes',
  ),
  ...rows(
    refused(
      'Presence events are not fired.',
      'Ask jobs.plan or status who is connected; salt/auth and start events are fired.',
    ),
    'presence_events detect_remote_minions',
  ),
  ...rows(
    refused('Minions do not find this master by multicast.', 'Name the master in their files.'),
    'discovery',
  ),
  ...rows(
    refused(
      'TLS is not served.',
      'Put the master behind a tunnel, or keep it in a trusted network.',
    ),
    'ssl',
  ),
  ...rows(
    refused('Minions cannot push files.', 'Let them upload to a service of yours.'),
    'file_recv file_recv_max_size',
  ),
  ...rows(
    ignored(
      'Keys, jobs, grains and pillar are in pki_dir and in a store of our own.',
      'Nothing, unless another program reads the old cache.',
    ),
    'cache key_cache keys.cache_driver',
  ),
  ...rows(
    ignored(
      'The master runs as whoever starts it.',
      'Start it as this user; pki_dir and state_dir must be its own.',
    ),
    'user',
  ),
  ...rows(
    ignored('Limits of the process are those that it is started with.', 'Set LimitNOFILE.'),
    'max_open_files',
  ),
  ...rows(ssh, 'roster roster_file rosters roster_defaults ssh_user ssh_passwd ssh_minion_opts'),
  ...rows(windowsRepository, 'winrepo_remotes winrepo_remotes_ng winrepo_dir winrepo_dir_ng'),
  ...rows(
    tuning,
    'worker_threads con_cache pub_server_niceness mworker_niceness event_publisher_niceness sock_pool_size ipc_write_buffer',
  ),
]);

/** Options that say how a part is to work: the part's own option says what becomes of it. */
const families: readonly (readonly [begin: RegExp, part: string])[] = [
  [/^(hgfs|svnfs|s3fs|azurefs|minionfs)_/, 'a file server'],
  [/^(fileserver|file_ignore|file_buffer|roots_update)/, 'the file server'],
  [/^(decrypt_)?pillar_|^pillarenv|^gpg_/, 'pillar'],
  [/^(thorium|reactor|syndic|winrepo|memcache)/, 'a part that is not served'],
  [/^(ssh|thin|min)_/, 'salt-ssh'],
  [/^log_(date|fmt|granular|rotate)/, "the log of Salt's own programs"],
];

/** What is known of the part that an option brings into use. */
function adviceOf(option: string): Advice | undefined {
  const family = families.find(([begin]) => begin.test(option));
  return byOption.get(option) ?? (family && detailOf(family[1]));
}

function detailOf(part: string): Advice {
  return ignored(`It says how ${part} is to work.`, 'Remove it when that is settled.');
}

/** Of an option of Salt's that nothing more is known of. */
const plainOption: Advice = ignored(
  'The option is not served and has no effect.',
  'Remove it, or see whether anybody relies on it.',
);

function refused(meaning: string, remedy: string): Advice {
  return { outcome: 'refused', meaning, remedy };
}

function ignored(meaning: string, remedy: string): Advice {
  return { outcome: 'ignored', meaning, remedy };
}

function rows(advice: Advice, options: string): [string, Advice][] {
  return options.split(' ').map((option) => [option, advice]);
}

// Keys.

const faults = {
  unreadable: 'cannot be read',
  'no-key': 'is no RSA key that can be used',
  small: 'has less than 2048 bits',
} as const;

/** How many keys there are in each state. */
function countKeys({ keys }: KeySurvey): Record<KeyPlace, number> {
  const counts = { accepted: 0, denied: 0, pending: 0, rejected: 0 };
  for (const { place } of keys) counts[place]++;
  return counts;
}

/** The master's own pairs, the states in use, and each key that cannot go on. */
async function keyFindings(config: MasterConfig, survey: KeySurvey): Promise<MigrationFinding[]> {
  const counts = countKeys(survey);
  const states = Object.entries(counts).map(([state, count]) => `${count} ${state}`);
  return [
    ...(await ownKeyFindings(config)),
    {
      outcome: 'honoured',
      kind: 'keys',
      name: 'minion keys',
      file: config.pkiDir,
      line: 0,
      meaning: `They are used where they are: ${states.join(', ')}.`,
      remedy: '',
    },
    ...survey.unreadable.map((directory) => unreadableFinding(directory)),
    ...survey.keys.flatMap(faultyKey),
    ...unusualIds(config, survey.keys),
    ...(counts.denied > 0 ? [deniedKeys(config, counts.denied)] : []),
  ];
}

async function ownKeyFindings(config: MasterConfig): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const { name, fault } of await surveyOwnKeys(config)) {
    const file = path.resolve(config.pkiDir, name);
    findings.push({
      outcome: fault?.isFatal ? 'refused' : 'honoured',
      kind: 'keys',
      name,
      file,
      line: 0,
      meaning: fault === undefined ? 'Minions go on trusting it.' : `${fault.problem}.`,
      remedy: fault === undefined ? '' : `${fault.remedy}.`,
    });
  }
  return findings;
}

function faultyKey({ id, place, file, fault }: SurveyedKey): MigrationFinding[] {
  if (fault === undefined || place !== 'accepted') return [];
  return [
    {
      outcome: 'refused',
      kind: 'keys',
      name: `key of ${id}`,
      file,
      line: 0,
      meaning: `It ${faults[fault]}: the minion cannot sign in.`,
      remedy: 'Delete the key here and the pair on the minion; it makes a new one.',
    },
  ];
}

/** Ids that no new minion may have. */
function unusualIds(
  { pkiDir, minionIds }: MasterConfig,
  keys: readonly SurveyedKey[],
): MigrationFinding[] {
  if (minionIds === 'salt') return [];
  return keys
    .filter(({ id, place }) => place !== 'denied' && !isNewMinionId(id))
    .map(({ id, place }) => ({
      outcome: 'honoured',
      kind: 'keys',
      name: `id ${JSON.stringify(id)}`,
      file: path.join(pkiDir, placeDirectories[place], id),
      line: 0,
      meaning:
        place === 'accepted'
          ? 'It goes on working; no new minion may have such an id.'
          : 'No new minion may have such an id, so its key cannot be accepted.',
      remedy: 'Give the machine another id, or set saltbridge: minion_ids: salt.',
    }));
}

function deniedKeys({ pkiDir }: MasterConfig, count: number): MigrationFinding {
  return {
    outcome: 'honoured',
    kind: 'keys',
    name: 'denied keys',
    file: path.join(pkiDir, placeDirectories.denied),
    line: 0,
    meaning: `${count} ids were asked for with another key than theirs.`,
    remedy: 'Find out which machines use an id twice; delete denied keys that are explained.',
  };
}

// Files of other programs in `/etc/salt`.

const neighbours: readonly {
  readonly names: RegExp;
  readonly finding: Pick<MigrationFinding, 'name' | 'outcome' | 'meaning' | 'remedy'>;
}[] = [
  {
    names: /^cloud($|\.(providers|profiles|conf|maps|deploy)(\.d)?$)/,
    finding: {
      name: 'salt-cloud',
      outcome: 'ignored',
      meaning:
        'salt-cloud goes on as a program of its own. Keys that it puts into pki_dir are noticed; its events reach nobody.',
      remedy:
        'Nothing, unless a reactor listens to salt/cloud/*; then act where salt-cloud is called.',
    },
  },
  {
    names: /^roster$/,
    finding: {
      name: 'roster',
      outcome: 'ignored',
      meaning: 'salt-ssh goes on as a program of its own.',
      remedy: 'Keep salt-ssh where it is installed; it needs no master.',
    },
  },
  {
    names: /^proxy(\.d)?$/,
    finding: {
      name: 'proxy minions',
      outcome: 'honoured',
      meaning: 'Proxy minions sign in as any minion does.',
      remedy: '',
    },
  },
];

/** One finding for each program whose files are there. Empty directories do not count. */
async function neighbourFindings(directory: string): Promise<MigrationFinding[]> {
  const names = await readdir(directory).catch(() => undefined);
  if (names === undefined) return [unreadableFinding(directory)];
  const findings: MigrationFinding[] = [];
  for (const { names: pattern, finding } of neighbours) {
    for (const name of names.filter((it) => pattern.test(it)).sort()) {
      const file = path.join(directory, name);
      if (!(await isUsed(file))) continue;
      findings.push({ ...finding, kind: 'part', file, line: 0 });
      break;
    }
  }
  return findings;
}

async function isUsed(file: string): Promise<boolean> {
  const inside = await readdir(file).catch(() => undefined);
  return inside === undefined || inside.length > 0;
}

// Options in use.

/** Options whose values name modules; the names belong into the report. */
const moduleLists: ReadonlySet<string> = new Set([
  'engines',
  'event_return',
  'ext_job_cache',
  'fileserver_backend',
  'master_job_cache',
  'master_tops',
]);

/** Values that ask for nothing: the option is as good as not there. */
const nothing: ReadonlySet<unknown> = new Set([null, false, '', 'local_cache', 'localfs']);

const unknownOption: Advice = {
  outcome: 'ignored',
  meaning: 'Neither Salt nor this master has such an option.',
  remedy: 'See whether it is misspelt, or read by a module of your own.',
};

/** `undefined`: the option is no profile of sdb. */
function sdbAdvice(name: string, setting: Setting): Advice | undefined {
  const warnings = warnOfSdbProfile(name, setting);
  if (warnings === undefined) return undefined;
  const [warning] = warnings;
  if (warning === undefined) {
    const meaning = 'It is a profile of sdb, which the runner sdb of the master serves.';
    return { outcome: 'honoured', meaning, remedy: '' };
  }
  const remedy = 'Use the drivers env, yaml or json, or pillar; minions keep their own sdb.';
  return { outcome: 'refused', meaning: `${withoutPlace(warning)}.`, remedy };
}

const reactorAdvice: Advice = {
  outcome: 'honoured',
  meaning: 'Each file does what rules permit to service reaction:<file>, and nothing without one.',
  remedy: 'Put the policy of this report into master.d; --write FILE writes it.',
};

/** Options, and files that cannot be used, in the order in which they were read. */
function optionFindings({ settings, warnings, problems }: ConfigSurvey): MigrationFinding[] {
  const refusedOptions = new Set(problems.map(({ key }) => key.split(':')[0]));
  const options = [...settings]
    .filter(([name]) => !refusedOptions.has(name))
    .map(([name, setting]) => optionFinding(name, setting));
  const missing = warnings
    .filter(({ kind }) => kind === 'missing-file' || kind === 'nothing-included')
    .map(missingFile);
  const narrowed = warnings.filter(({ kind }) => kind === 'narrowed').map(narrowedFinding);
  // Former names have findings of their own.
  const others = problems.filter(({ code }) => code !== 'ERR_OPTION_RENAMED');
  return [...others.map(problemFinding), ...missing, ...options, ...narrowed];
}

function missingFile({ file, line, kind }: ConfigWarning): MigrationFinding {
  const isMain = kind === 'missing-file';
  return {
    outcome: 'ignored',
    kind: 'file',
    name: isMain ? 'master' : 'include',
    file,
    line,
    meaning: isMain ? 'The file does not exist; defaults apply.' : 'A pattern matches no file.',
    remedy: isMain ? 'See whether this is the directory that was meant.' : 'Correct the pattern.',
  };
}

function narrowedFinding(warning: ConfigWarning): MigrationFinding {
  const { key, file, line } = warning;
  return {
    outcome: 'honoured',
    kind: 'option',
    name: key,
    file,
    line,
    meaning: `It permits less than in Salt. ${withoutPlace(warning)}.`,
    remedy: 'Write each expression as it is meant.',
  };
}

function problemFinding(problem: ConfigError): MigrationFinding {
  const { code, file, line, key } = problem;
  const isFile = code === 'ERR_CONFIG_READ' || code === 'ERR_CONFIG_SYNTAX';
  return {
    outcome: 'refused',
    kind: isFile ? 'file' : 'option',
    name: key === '' ? 'configuration' : key,
    file,
    line,
    meaning: `The master does not start: ${withoutPlace(problem)}.`,
    remedy: isFile ? 'Correct the file.' : 'Change the option to what is expected, or remove it.',
  };
}

/** Former names: each of them keeps the master from starting. */
function renamedFindings(uses: readonly RenamedUse[]): MigrationFinding[] {
  return uses.map(({ key, file, line, newName }) => ({
    outcome: 'refused',
    kind: 'option',
    name: key,
    file,
    line,
    meaning: 'The name was changed, and the master does not start with the former one.',
    remedy: `Write ${newName}.`,
  }));
}

function optionFinding(name: string, { value, origin }: Setting): MigrationFinding {
  const place = { kind: 'option', name, file: origin.file, line: origin.line } as const;
  switch (optionStatus(name)) {
    case 'served':
      if (name === 'ext_pillar' && unservedExtPillars(value).length > 0) {
        return { ...place, ...withNames(unservedExtPillars(value), adviceOf(name) ?? plainOption) };
      }
      if (name === 'reactor') return { ...place, ...reactorAdvice };
      return { ...place, outcome: 'honoured', meaning: 'The option is served.', remedy: '' };
    case 'unknown':
      return {
        ...place,
        ...(sdbAdvice(name, { value, origin }) ?? adviceOf(name) ?? unknownOption),
      };
    case 'not-needed':
    case 'not-served':
      return { ...place, ...describe(name, value) };
  }
}

function describe(name: string, value: unknown): Advice {
  const asksForNothing = nothing.has(value) || isEmpty(value);
  const advice = adviceOf(name) ?? plainOption;
  if (asksForNothing) {
    return {
      outcome: 'ignored',
      meaning: 'It is empty, off, or what Salt does anyway.',
      remedy: '',
    };
  }
  const names = moduleLists.has(name) ? moduleNames(value) : [];
  return names.length === 0 ? advice : withNames(names, advice);
}

function withNames(names: readonly string[], advice: Advice): Advice {
  return { ...advice, meaning: `In use: ${names.join(', ')}. ${advice.meaning}` };
}

function isEmpty(value: unknown): boolean {
  return (Array.isArray(value) && value.length === 0) || (value instanceof Map && value.size === 0);
}

const order: readonly MigrationOutcome[] = ['refused', 'ignored', 'honoured'];

/**
 * Looks at a configuration directory such as `/etc/salt`, and at the trees, modules and keys that
 * it names. Only reads. What cannot be read is a finding.
 */
export async function checkMigration(directory: string): Promise<MigrationReport> {
  const survey = await surveyMasterConfig(directory);
  const { config, settings, files } = survey;
  const keys = await surveyKeys(config.pkiDir);
  const reactions = await planReactions(settings);
  const findings = [
    ...renamedFindings(await findRenamedUses(directory, survey)),
    ...optionFindings(survey),
    ...reactionFindings(settings, reactions),
    ...(await treeFindings(settings)),
    ...(await codeFindings(settings, config.cachedir)),
    ...(await neighbourFindings(path.resolve(directory))),
    ...(await keyFindings(config, keys)),
  ];
  return {
    directory: path.resolve(directory),
    files,
    findings: order.flatMap((outcome) => findings.filter((it) => it.outcome === outcome)),
    counts: countOutcomes(findings),
    keys: countKeys(keys),
    signals: planSignals(await findListeners(settings), enginePrefixes(settings)),
    reactions,
  };
}

/** What no rule can be derived of is denied, and somebody misses it. */
function reactionFindings(
  settings: Settings,
  { underivable }: ReactionPlan,
): readonly MigrationFinding[] {
  const { file = '', line = 0 } = settings.get('reactor')?.origin ?? {};
  return underivable.map((it) => ({
    outcome: 'refused',
    kind: 'part',
    name: it.reference,
    file: it.file === '' ? file : it.file,
    line: it.file === '' ? line : 0,
    meaning: `No rule can be derived of a part of this reactor file: ${it.reason}.`,
    remedy: `Write a rule for service reaction:${it.reference} that permits what it is to do.`,
  }));
}

async function treeFindings(settings: Settings): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const root of rootsOf(settings, 'file_roots')) {
    findings.push(...(await unnamedTree(root, 'file_roots')));
    findings.push(...(await rendererFindings(root, 'minions')));
    findings.push(...(await customModuleFindings(root.directory)));
  }
  for (const root of rootsOf(settings, 'pillar_roots')) {
    findings.push(...(await unnamedTree(root, 'pillar_roots')));
    findings.push(...(await rendererFindings(root, 'master')));
  }
  return findings;
}

/** A tree in the place of Salt's default is in use although no option says so. */
async function unnamedTree(root: Root, option: string): Promise<MigrationFinding[]> {
  const advice = adviceOf(option);
  if (root.file !== '' || advice === undefined || optionStatus(option) === 'served') return [];
  const { files } = await walkFiles(root.directory);
  if (files.length === 0) return [];
  return [{ kind: 'part', name: option, file: root.directory, line: 0, ...advice }];
}

async function codeFindings(settings: Settings, cachedir: string): Promise<MigrationFinding[]> {
  const named = textsOf(settings.get('extension_modules')?.value);
  const directories = [
    ...(named.length > 0 ? named : [path.join(cachedir, 'extmods')]),
    ...textsOf(settings.get('module_dirs')?.value),
  ];
  const found = await Promise.all(directories.map((directory) => extensionFindings(directory)));
  return found.flat();
}

function countOutcomes(findings: readonly MigrationFinding[]): Record<MigrationOutcome, number> {
  const counts = { honoured: 0, ignored: 0, refused: 0 };
  for (const { outcome } of findings) counts[outcome]++;
  return counts;
}

/** The whole report. */
export interface MigrationReport {
  /** The configuration directory. */
  readonly directory: string;
  /** Configuration files that were read, in the order of reading. */
  readonly files: readonly string[];
  /** Sorted: refused, ignored, honoured; options, parts, keys and files in the order found. */
  readonly findings: readonly MigrationFinding[];
  readonly counts: Readonly<Record<MigrationOutcome, number>>;
  readonly keys: Readonly<Record<KeyPlace, number>>;
  /** What minions must be let emit, so that the listeners of this site go on hearing them. */
  readonly signals: SignalPlan;
  /** What the files of the reactor must be permitted, so that they go on doing what they call. */
  readonly reactions: ReactionPlan;
}
