/** Every option in use, and what becomes of it. */
import type { ConfigError } from '../config/errors.ts';
import { unservedExtPillars } from '../config/ext-pillar-warnings.ts';
import { optionStatus } from '../config/load.ts';
import { withoutPlace } from '../config/place.ts';
import type { Setting } from '../config/settings.ts';
import type { ConfigSurvey } from '../config/survey.ts';
import type { ConfigWarning } from '../config/warnings.ts';
import { type Advice, adviceOf, plainOption } from './advice.ts';
import { moduleNames } from './plain-values.ts';
import type { MigrationFinding } from './report.ts';

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
  wayOut: 'See whether it is misspelt, or read by a module of your own.',
};

const reactorAdvice: Advice = {
  outcome: 'honoured',
  meaning: 'Each file does what rules permit to service reaction:<file>, and nothing without one.',
  wayOut: 'Put the policy of this report into master.d; --write FILE writes it.',
};

/** Options, and files that cannot be used, in the order in which they were read. */
export function optionFindings({ settings, warnings, problems }: ConfigSurvey): MigrationFinding[] {
  const refusedOptions = new Set(problems.map(({ key }) => key.split(':')[0]));
  const options = [...settings]
    .filter(([name]) => !refusedOptions.has(name))
    .map(([name, setting]) => optionFinding(name, setting));
  const missing = warnings
    .filter(({ kind }) => kind === 'missing-file' || kind === 'nothing-included')
    .map(missingFile);
  const narrowed = warnings.filter(({ kind }) => kind === 'narrowed').map(narrowedFinding);
  return [...problems.map(problemFinding), ...missing, ...options, ...narrowed];
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
    wayOut: isMain ? 'See whether this is the directory that was meant.' : 'Correct the pattern.',
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
    wayOut: 'Write each expression as it is meant.',
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
    wayOut: isFile ? 'Correct the file.' : 'Change the option to what is expected, or remove it.',
  };
}

function optionFinding(name: string, { value, origin }: Setting): MigrationFinding {
  const place = { kind: 'option', name, file: origin.file, line: origin.line } as const;
  switch (optionStatus(name)) {
    case 'served':
      if (name === 'ext_pillar' && unservedExtPillars(value).length > 0) {
        return { ...place, ...withNames(unservedExtPillars(value), adviceOf(name) ?? plainOption) };
      }
      if (name === 'reactor') return { ...place, ...reactorAdvice };
      return { ...place, outcome: 'honoured', meaning: 'The option is served.', wayOut: '' };
    case 'unknown':
      return { ...place, ...(adviceOf(name) ?? unknownOption) };
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
      wayOut: '',
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
