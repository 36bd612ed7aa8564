import { warnOfExtPillar } from './ext-pillar.ts';
import { warnOfFileBackends } from './fileserver-backend.ts';
import { completeSettings, warnOfPushedFiles, warnOfUnserved } from './load.ts';
import { warnOfNarrowed } from './narrowed-patterns.ts';
import { ConfigError, type ConfigWarning, isSettings, type Settings } from './option-kinds.ts';
import type { MasterConfig } from './options.ts';
import { mainFileOf, readConfigFiles } from './read-files.ts';
import { warnOfSchedule } from './schedule.ts';
import { warnOfRights } from './user-rights.ts';

// A survey reports all problems of a configuration instead of the first.

export interface ConfigSurvey {
  /** What can be used; defaults stand for the rest. */
  readonly config: MasterConfig;
  /** Every option at the top of a file, as it was given. */
  readonly settings: Settings;
  /** Files that were read, in the order of reading. */
  readonly files: readonly string[];
  readonly warnings: readonly ConfigWarning[];
  /** What would keep a master from starting. */
  readonly problems: readonly ConfigError[];
}

/** Reads what `loadMasterConfig` reads, and goes on behind what that refuses. Never throws. */
export async function surveyMasterConfig(directory: string): Promise<ConfigSurvey> {
  const mainFile = mainFileOf(directory);
  const problems: ConfigError[] = [];
  const { settings, files, warnings } = await readConfigFiles(mainFile, (it) => problems.push(it));
  const config = completeWhatCan(settings, mainFile, problems);
  return {
    config,
    settings,
    files,
    warnings: [
      ...warnings,
      ...warnOfUnserved(settings),
      ...warnOfExtPillar(settings),
      ...warnOfFileBackends(settings),
      ...warnOfSchedule(settings),
      ...warnOfNarrowed(config, settings),
      ...warnOfRights(config, settings),
      ...warnOfPushedFiles(config, settings),
    ],
    problems,
  };
}

/** Leaves out one refused option after the other. */
function completeWhatCan(
  settings: Settings,
  mainFile: string,
  problems: ConfigError[],
): MasterConfig {
  const usable = structuredClone(settings);
  for (;;) {
    try {
      return completeSettings(usable, mainFile);
    } catch (error) {
      if (!(error instanceof ConfigError) || usable.size === 0) throw error;
      problems.push(error);
      // Where the culprit cannot be found, no option is better than none of the report.
      if (!leaveOut(usable, error.key.split(':'))) usable.clear();
    }
  }
}

function leaveOut(settings: Settings, key: readonly string[]): boolean {
  const [name = '', ...rest] = key;
  const inner = settings.get(name)?.value;
  if (rest.length > 0 && isSettings(inner)) return leaveOut(inner, rest);
  return settings.delete(name);
}
