/** Determines the enabled extensions of a bridge, and loads their modules. */

import type { MasterConfig } from '#config';
import type { BridgeExtension, BridgeExtensionModule } from './bridge-extension.ts';
import type { CatalogEntryKind, CatalogKindSource } from './catalog/entry-kind.ts';
import { isPlainMap } from './commands/command-definition.ts';
import { type BridgeSections, parseSections, type SectionProblem } from './options.ts';
import { ownExtensions } from './own-extensions.ts';
import { sectionProblems } from './section-problems.ts';

/**
 * Choice of extensions by name. `false` disables an extension. `true` enables it even if the
 * configuration has no section for it.
 */
export type ExtensionChoice = Readonly<Record<string, boolean | undefined>>;

/** Enabled extension with its loaded module. */
interface LoadedExtension {
  readonly extension: BridgeExtension;
  readonly module: BridgeExtensionModule;
}

/** Enabled extensions of a bridge. */
export interface EnabledExtensions {
  readonly sections: BridgeSections;
  readonly loaded: readonly LoadedExtension[];
  readonly names: ReadonlySet<string>;
  readonly kinds: readonly CatalogKindSource[];
}

/**
 * Returns the names of the sections that `saltbridge: bridge:` may have. Sections of extensions
 * that the program disables are not included.
 */
export function sectionNames(
  extensions: readonly BridgeExtension[],
  choice: ExtensionChoice,
): readonly (keyof BridgeSections)[] {
  const present = extensions.filter(({ name }) => choice[name] !== false);
  return ['keystone', ...new Set(present.flatMap(({ sections }) => sections))];
}

/**
 * Loads the enabled extensions.
 * @throws BridgeOptionsError
 */
export async function loadEnabled(
  extensions: readonly BridgeExtension[],
  choice: ExtensionChoice,
  given: unknown,
): Promise<EnabledExtensions> {
  const sections = parseSections(given, sectionNames(extensions, choice));
  return { sections, ...(await loadModules(extensions, choice, sections)) };
}

/**
 * Loads the enabled extensions for a check of the configuration, even if their sections have
 * errors.
 */
async function loadForCheck(
  extensions: readonly BridgeExtension[],
  choice: ExtensionChoice,
  given: unknown,
): Promise<EnabledExtensions> {
  const sections: BridgeSections = isPlainMap(given) ? given : {};
  return { sections, ...(await loadModules(extensions, choice, sections)) };
}

async function loadModules(
  extensions: readonly BridgeExtension[],
  choice: ExtensionChoice,
  sections: BridgeSections,
): Promise<Omit<EnabledExtensions, 'sections'>> {
  const enabled = enabledOf(extensions, choice, sections);
  const loaded = await Promise.all(
    enabled.map(async (extension) => ({ extension, module: await extension.load() })),
  );
  const names = new Set(enabled.map(({ name }) => name));
  const kinds = extensions.flatMap((extension): CatalogKindSource[] => {
    const { catalogKey: key } = extension;
    if (key === undefined) return [];
    const ignored: CatalogEntryKind = { key, parse: (name) => ({ name }), check: () => {} };
    if (isLeftOut(extension, choice, sections)) return [{ key, load: async () => ignored }];
    return [{ key, load: async () => (await extension.load()).entries ?? ignored }];
  });
  return { loaded, names, kinds };
}

function enabledOf(
  extensions: readonly BridgeExtension[],
  choice: ExtensionChoice,
  sections: BridgeSections,
): readonly BridgeExtension[] {
  const enabled = new Map<string, BridgeExtension>();
  for (const extension of extensions) {
    const { name, requires = [], isConfigured } = extension;
    const isWanted = choice[name] === true || (isConfigured?.(sections) ?? true);
    const isOut = isLeftOut(extension, choice, sections);
    if (!isOut && isWanted && requires.every((it) => enabled.has(it))) {
      enabled.set(name, extension);
    }
  }
  return [...enabled.values()];
}

/**
 * Whether the program or the configuration disables the extension. If so, its entries in catalog
 * files are ignored.
 */
function isLeftOut(
  { name, sections: own }: BridgeExtension,
  choice: ExtensionChoice,
  sections: BridgeSections,
): boolean {
  return choice[name] === false || own.some((key) => sections[key] === false);
}

/**
 * Returns all errors under `saltbridge: bridge:`, and in the catalog files to which it refers.
 * @param others - extensions from directories other than `heat-bridge/`
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

/** Removes duplicate errors. Extensions that share a section report the same errors. */
function withoutRepetitions(problems: readonly SectionProblem[]): readonly SectionProblem[] {
  return [...new Map(problems.map((it) => [JSON.stringify(it), it])).values()];
}

async function checkKeystone(section: unknown): Promise<readonly SectionProblem[]> {
  if (section === undefined) return [];
  const { parseKeystoneOptions } = await import('./openstack/keystone-options.ts');
  return sectionProblems('bridge:keystone', section, (it) => it && parseKeystoneOptions(it));
}
