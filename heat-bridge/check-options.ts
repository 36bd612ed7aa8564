/** What would keep the bridge of a configuration from opening, before anything is opened. */

import path from 'node:path';
import { parseDeploymentsOptions } from '#guests/deployments/open-deployments.ts';
import { readMuranoOptions } from '#guests/murano/open-murano.ts';
import { parseGuestsOptions } from '#guests/open-guests.ts';
import type { MasterConfig } from '#master';
import { describeSystemError, listYamlFiles } from '#runtime';
import { loadCatalog } from './catalog/load-catalog.ts';
import { isPlainMap } from './commands/command-definition.ts';
import { parseRunQuotas } from './commands/run-quotas.ts';
import { parseEnrollOptions } from './enroll/open-enrolment.ts';
import { parseKeystoneOptions } from './keystone.ts';
import {
  BridgeOptionsError,
  type BridgeSections,
  keyPath,
  keyText,
  parseSections,
  type SectionProblem,
} from './options.ts';
import { readLeniently } from './read-leniently.ts';
import { parseSignalsOptions } from './signals/open-signals.ts';

/** Every mistake under `saltbridge: bridge:`, and in the files of the catalog that it names. */
export async function checkBridgeOptions(
  config: Pick<MasterConfig, 'api' | 'bridge' | 'confFile' | 'restCherrypy'>,
): Promise<readonly SectionProblem[]> {
  const sections: BridgeSections = isPlainMap(config.bridge) ? config.bridge : {};
  const base = path.dirname(config.confFile);
  const { handles, enroll, keystone, deployments, murano, runs, guests } = sections;
  const problems = [
    ...problemsOf('bridge', config.bridge, parseSections),
    ...problemsOf('bridge:handles', handles, parseSignalsOptions),
    ...problemsOf('bridge:enroll', enroll, (it) => parseEnrollOptions(it, config)),
    ...problemsOf('bridge:keystone', keystone, (it) => it && parseKeystoneOptions(it)),
    ...problemsOf('bridge:deployments', deployments, parseDeploymentsOptions),
    ...problemsOf('bridge:murano', murano, (it) => readMuranoOptions(it, base)),
    ...problemsOf('bridge:runs', runs, parseRunQuotas),
    ...problemsOf('bridge:guests', guests, (it) =>
      parseGuestsOptions(it, { keystone, masters: mastersOf(enroll, config) }),
    ),
  ];
  return [...problems, ...(await checkCatalog([sections.catalog ?? []].flat(), config))];
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

/** All that is wrong with a section. @param name - `bridge:handles` */
function problemsOf(
  name: string,
  section: unknown,
  parse: (section: unknown) => unknown,
): readonly SectionProblem[] {
  const above = `saltbridge:${name}`;
  const { mistakes } = readLeniently(section, parse, (error) => {
    if (!(error instanceof BridgeOptionsError)) throw error;
    // What another section says is told by its own check.
    return error.problems
      .filter(({ key }) => key.startsWith(above))
      .map(({ key, problem }) => ({ path: keyPath(key.slice(above.length)), problem }));
  });
  return mistakes.map(({ path: steps, problem }) => ({
    key: `${above}${keyText(steps)}`,
    problem,
  }));
}

async function checkCatalog(
  places: readonly unknown[],
  { confFile }: Pick<MasterConfig, 'confFile'>,
): Promise<readonly SectionProblem[]> {
  const problems: SectionProblem[] = [];
  const readable: string[] = [];
  for (const [index, place] of places.entries()) {
    if (typeof place !== 'string') continue;
    const whole = path.resolve(path.dirname(confFile), place);
    try {
      await listYamlFiles(whole);
      readable.push(whole);
    } catch (error) {
      const problem = `cannot be read: ${describeSystemError(error) ?? whole}`;
      problems.push({ key: `saltbridge:bridge:catalog[${index}]`, problem });
    }
  }
  const { findings } = await loadCatalog(readable);
  const key = 'saltbridge:bridge:catalog';
  return [
    ...problems,
    ...findings.map(({ file, line, problem }) => ({ key, problem, file, line })),
  ];
}
