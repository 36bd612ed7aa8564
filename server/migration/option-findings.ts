/** Findings about the options of a configuration: supported, without effect, or refused. */

import {
  type CheckedConfig,
  type ConfigError,
  type ConfigWarning,
  findUnserved,
  moduleNames,
  type Setting,
  servedOptions,
  type UnservedOption,
  unservedExtPillars,
  warnOfSdbProfile,
  withoutPlace,
} from '#config';
import type { MigrationFinding, MigrationOutcome } from './finding.ts';

/**
 * Statement about an option: its effect in saltbridge, the explanation, and the action for the
 * operator.
 */
interface Advice {
  readonly outcome: MigrationOutcome;
  readonly meaning: string;
  readonly remedy: string;
}

const externalPillar: Advice = {
  outcome: 'refused',
  meaning:
    "Salt's modules for external pillar are not supported. The sources minion_files and minion_http replace them.",
  remedy:
    'Write or serve the data of each minion with a program of yours for one of these sources, or pass your own source to createMaster.',
};

/** Options whose values name modules of Salt. The report includes the names of these modules. */
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
  meaning: 'Neither Salt nor this master has this option.',
  remedy: 'Check whether the option is misspelt, or used by a module of your own.',
};

/**
 * Returns advice about an option that is a profile of the secret store interface `sdb`. Returns
 * `undefined` for other options.
 */
function sdbAdvice(name: string, setting: Setting): Advice | undefined {
  const warnings = warnOfSdbProfile(name, setting);
  if (warnings === undefined) return undefined;
  const [warning] = warnings;
  if (warning === undefined) {
    const meaning = "It is a profile of sdb, which the master's runner sdb serves.";
    return { outcome: 'honoured', meaning, remedy: '' };
  }
  const remedy =
    'Use the drivers `env`, `yaml` or `json`, or use pillar. Minions keep using their own sdb.';
  return { outcome: 'refused', meaning: `${withoutPlace(warning)}.`, remedy };
}

const reactorAdvice: Advice = {
  outcome: 'honoured',
  meaning:
    'Each file may only perform actions that rules permit to service reaction:<file>. Without a rule it may do nothing.',
  remedy: 'Put the policy of this report into master.d; --write FILE writes it.',
};

/**
 * Returns findings about options and about unreadable files, in the order in which they were read.
 */
export function optionFindings({
  settings,
  warnings,
  problems,
}: CheckedConfig): MigrationFinding[] {
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

/**
 * Whether a warning is about a value that works in Salt but has no effect in saltbridge. This
 * excludes missing files, which Salt ignores too, and invalid nodegroups.
 */
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
    meaning: `The option has no effect. ${withoutPlace(warning)}.`,
    remedy: 'Change the value to a supported one, or remove it.',
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
    meaning: isMain
      ? 'The file does not exist; defaults apply.'
      : 'The pattern of the option `include` matches no file.',
    remedy: isMain ? 'Check that this is the intended directory.' : 'Correct the pattern.',
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
    meaning: `The option permits less than in Salt. ${withoutPlace(warning)}.`,
    remedy: 'Rewrite each expression so that it has the intended meaning.',
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
    remedy: isFile ? 'Correct the file.' : 'Change the option to the expected value, or remove it.',
  };
}

function optionFinding(name: string, setting: Setting): MigrationFinding {
  const { value, origin } = setting;
  const place = { kind: 'option', name, file: origin.file, line: origin.line } as const;
  if (servedOptions.has(name)) {
    const modules = name === 'ext_pillar' ? unservedExtPillars(value) : [];
    if (modules.length > 0) return { ...place, ...withNames(modules, externalPillar) };
    if (name === 'reactor') return { ...place, ...reactorAdvice };
    return { ...place, outcome: 'honoured', meaning: 'The option is supported.', remedy: '' };
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
    const meaning = "The option is empty, or has Salt's default.";
    return { outcome: 'ignored', meaning, remedy: '' };
  }
  const isRefused = kind === 'not-served' && !isDetail;
  return {
    outcome: isRefused ? 'refused' : 'ignored',
    meaning: kind === 'not-served' ? 'The option is not supported.' : 'The option has no effect.',
    remedy: `${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`,
  };
}

function withNames(names: readonly string[], advice: Advice): Advice {
  return { ...advice, meaning: `In use: ${names.join(', ')}. ${advice.meaning}` };
}
