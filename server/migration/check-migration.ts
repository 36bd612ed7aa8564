/** The report on a salt-master's configuration: what would become of each thing that it uses. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import {
  type CheckedConfig,
  type ConfigError,
  type ConfigWarning,
  checkMasterConfig,
  enginePrefixes,
  findUnserved,
  isServedOption,
  type MasterConfig,
  moduleNames,
  planSignals,
  type Setting,
  type Settings,
  type SignalPlan,
  textsOf,
  type UnservedOption,
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
} from '#master';
import { isNewMinionId } from '#minion-protocol';
import { withNamedFiles } from '../check-config.ts';
import type { MigrationFinding, MigrationOutcome } from './finding.ts';
import { planReactions, type ReactionPlan } from './reaction-plan.ts';
import {
  customModuleFindings,
  extensionFindings,
  findListeners,
  masterTemplates,
  rendererFindings,
  rootsOf,
  unreadableFinding,
} from './site-files.ts';
import { templateCallFindings } from './template-calls.ts';

/** The outcome of an option, why, and what to do. */
interface Advice {
  readonly outcome: MigrationOutcome;
  readonly meaning: string;
  readonly remedy: string;
}

const externalPillar: Advice = {
  outcome: 'refused',
  meaning: "Salt's modules of external pillar are not asked; minion_files and minion_http are.",
  remedy:
    'Let a program write or serve the data of each minion for these two, or give createMaster a source of its own.',
};

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
function optionFindings({ settings, warnings, problems }: CheckedConfig): MigrationFinding[] {
  const lost = warnings.filter(isLost);
  const refusedOptions = new Set([...problems, ...lost].map(({ key }) => key.split(':')[0]));
  const options = [...settings]
    .filter(([name]) => !refusedOptions.has(name))
    .map(([name, setting]) => optionFinding(name, setting));
  const missing = warnings
    .filter(({ kind }) => kind === 'missing-file' || kind === 'nothing-included')
    .map(missingFile);
  const narrowed = warnings.filter(({ kind }) => kind === 'narrowed').map(narrowedFinding);
  return [
    ...problems.map(problemFinding),
    ...lost.map(lostFinding),
    ...missing,
    ...options,
    ...narrowed,
  ];
}

/** Whether a value that Salt uses has no effect here. Salt does without a missing file too. */
function isLost({ kind, key }: ConfigWarning): boolean {
  return kind === 'no-login' || (kind === 'unusable' && !key.startsWith('nodegroups'));
}

function lostFinding(warning: ConfigWarning): MigrationFinding {
  const { key, file, line } = warning;
  return {
    outcome: 'refused',
    kind: 'option',
    name: key,
    file,
    line,
    meaning: `It has no effect. ${withoutPlace(warning)}.`,
    remedy: 'Change the value to one that is served, or remove it.',
  };
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

function optionFinding(name: string, setting: Setting): MigrationFinding {
  const { value, origin } = setting;
  const place = { kind: 'option', name, file: origin.file, line: origin.line } as const;
  if (isServedOption(name)) {
    const modules = name === 'ext_pillar' ? unservedExtPillars(value) : [];
    if (modules.length > 0) return { ...place, ...withNames(modules, externalPillar) };
    if (name === 'reactor') return { ...place, ...reactorAdvice };
    return { ...place, outcome: 'honoured', meaning: 'The option is served.', remedy: '' };
  }
  const unserved = findUnserved(name);
  const advice =
    unserved === undefined
      ? (sdbAdvice(name, setting) ?? unknownOption)
      : unservedAdvice(unserved, setting);
  const modules = moduleLists.has(name) && advice.remedy !== '' ? moduleNames(value) : [];
  return { ...place, ...(modules.length === 0 ? advice : withNames(modules, advice)) };
}

function unservedAdvice(unserved: UnservedOption, setting: Setting): Advice {
  const { kind, advice, isDetail } = unserved;
  if (!unserved.isLost(setting)) {
    const meaning = "It is empty, or has Salt's default.";
    return { outcome: 'ignored', meaning, remedy: '' };
  }
  const isRefused = kind === 'not-served' && !isDetail;
  return {
    outcome: isRefused ? 'refused' : 'ignored',
    meaning: kind === 'not-served' ? 'It is not served.' : 'It has no effect.',
    remedy: `${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`,
  };
}

function withNames(names: readonly string[], advice: Advice): Advice {
  return { ...advice, meaning: `In use: ${names.join(', ')}. ${advice.meaning}` };
}

const order: readonly MigrationOutcome[] = ['refused', 'ignored', 'honoured'];

/**
 * Looks at a configuration directory such as `/etc/salt`, and at the trees, modules and keys that
 * it names. Only reads. What cannot be read is a finding.
 */
export async function checkMigration(directory: string): Promise<MigrationReport> {
  const survey = await withNamedFiles(await checkMasterConfig(directory));
  const { config, settings, files } = survey;
  const keys = await surveyKeys(config.pkiDir);
  const reactions = await planReactions(settings);
  const findings = [
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
    findings.push(...(await rendererFindings(root, 'minions')));
    findings.push(...(await customModuleFindings(root.directory)));
  }
  for (const root of rootsOf(settings, 'pillar_roots')) {
    findings.push(...(await rendererFindings(root, 'master')));
  }
  return [...findings, ...(await templateCallFindings(await masterTemplates(settings)))];
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
