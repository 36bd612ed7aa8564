import { warnOfExtPillar } from './ext-pillar.ts';
import { warnOfFileBackends } from './fileserver-backend.ts';
import { warnOfGrainRights } from './grain-rights.ts';
import { warnOfPushedFiles, warnOfUnserved } from './load.ts';
import { warnOfNarrowed } from './narrowed-patterns.ts';
import { type ReadConfig, readConfigDirectory } from './read-config.ts';
import { warnOfSchedule } from './schedule.ts';
import { warnOfRights } from './user-rights.ts';

/** What can be used of a configuration, and what is wrong with it. */
export type ConfigSurvey = ReadConfig;

/** Reads what `loadMasterConfig` reads, and goes on behind what that refuses. Never throws. */
export async function surveyMasterConfig(directory: string): Promise<ConfigSurvey> {
  const { config, settings, files, warnings, problems } = await readConfigDirectory(directory);
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
      ...warnOfGrainRights(config, settings),
      ...warnOfPushedFiles(config, settings),
    ],
    problems,
  };
}
