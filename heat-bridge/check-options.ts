/** Finds what keeps the bridge of a configuration from opening. Opens nothing. */

import type { MasterConfig } from '#config';
import type { BridgeExtension } from './bridge-extension.ts';
import { loadForCheck, sectionNames } from './enabled-extensions.ts';
import { parseSections, type SectionProblem } from './options.ts';
import { ownExtensions } from './own-extensions.ts';
import { sectionProblems } from './section-problems.ts';

/**
 * Returns every mistake under `saltbridge: bridge:`, and in the catalog files that it names.
 * @param others - extensions of other rooms
 */
export async function checkSections(
  config: Pick<MasterConfig, 'api' | 'bridge' | 'confFile' | 'restCherrypy'>,
  others: readonly BridgeExtension[],
): Promise<readonly SectionProblem[]> {
  const extensions = [...ownExtensions, ...others];
  const keys = sectionNames(extensions, {});
  const { sections, loaded, names, kinds } = await loadForCheck(extensions, {}, config.bridge);
  const problems = [
    ...sectionProblems('bridge', config.bridge, (it) => parseSections(it, keys)),
    ...(await checkKeystone(sections.keystone)),
  ];
  for (const { module } of loaded) {
    problems.push(...(await module.check({ sections, config, names, kinds, problems })));
  }
  return withoutRepetitions(problems);
}

/** Extensions that share a section report the same mistakes in it. */
function withoutRepetitions(problems: readonly SectionProblem[]): readonly SectionProblem[] {
  return [...new Map(problems.map((it) => [JSON.stringify(it), it])).values()];
}

async function checkKeystone(section: unknown): Promise<readonly SectionProblem[]> {
  if (section === undefined) return [];
  const { parseKeystoneOptions } = await import('./openstack/keystone-options.ts');
  return sectionProblems('bridge:keystone', section, (it) => it && parseKeystoneOptions(it));
}
