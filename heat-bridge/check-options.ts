/** What would keep the bridge of a configuration from opening, before anything is opened. */

import path from 'node:path';
import type { MasterConfig } from '../master/index.ts';
import { loadCatalog } from './catalog/load-catalog.ts';
import { isPlainMap } from './commands/command-definition.ts';
import { parseRunQuotas } from './commands/run-limits.ts';
import { parseDeploymentsOptions } from './deployments/open-deployments.ts';
import { parseEnrollOptions } from './enroll/open-enrolment.ts';
import { BridgeError } from './errors.ts';
import { parseGuestsOptions } from './guests/open-guests.ts';
import { parseKeystoneOptions } from './keystone.ts';
import { readMuranoOptions } from './murano/open-murano.ts';
import {
  BridgeOptionsError,
  type BridgeSections,
  parseSections,
  type SectionProblem,
} from './options.ts';
import { parseSignalsOptions } from './signals/open-signals.ts';

/** Every mistake under `saltbridge: bridge:`, and in the files of the catalog that it names. */
export async function checkBridgeOptions(
  config: Pick<MasterConfig, 'api' | 'bridge' | 'confFile' | 'restCherrypy'>,
): Promise<readonly SectionProblem[]> {
  const sections: BridgeSections = isPlainMap(config.bridge) ? config.bridge : {};
  const checks: readonly (() => unknown)[] = [
    () => parseSections(config.bridge),
    () => parseSignalsOptions(sections.handles),
    () => parseEnrollOptions(sections.enroll, config),
    () => sections.keystone !== undefined && parseKeystoneOptions(sections.keystone),
    () => parseDeploymentsOptions(sections.deployments),
    () => readMuranoOptions(sections.murano, path.dirname(config.confFile)),
    () => parseRunQuotas(sections.runs),
    () =>
      parseGuestsOptions(sections.guests, {
        keystone: sections.keystone,
        masters: mastersOf(sections.enroll, config),
      }),
  ];
  const catalog = await checkCatalog([sections.catalog ?? []].flat(), config);
  return [...checks.flatMap(problemsOf), ...catalog];
}

/** None where the section has a mistake, of which its own check tells. */
function mastersOf(
  section: unknown,
  config: Parameters<typeof parseEnrollOptions>[1],
): readonly string[] {
  try {
    return parseEnrollOptions(section, config).masters;
  } catch (error) {
    if (error instanceof BridgeOptionsError) return ['unknown'];
    throw error;
  }
}

function problemsOf(check: () => unknown): readonly SectionProblem[] {
  try {
    check();
    return [];
  } catch (error) {
    if (error instanceof BridgeOptionsError) return error.problems;
    throw error;
  }
}

async function checkCatalog(
  places: readonly unknown[],
  { confFile }: Pick<MasterConfig, 'confFile'>,
): Promise<readonly SectionProblem[]> {
  const key = 'saltbridge:bridge:catalog';
  const texts = places.filter((place) => typeof place === 'string');
  const files = texts.map((place) => path.resolve(path.dirname(confFile), place));
  try {
    const { findings } = await loadCatalog(files);
    return findings.map(({ file, problem }) => ({ key, problem: `${file}: ${problem}` }));
  } catch (error) {
    if (!(error instanceof BridgeError)) throw error;
    return [{ key, problem: error.message }];
  }
}
