import { BridgeOptionsError, keyPath, keyText, type SectionProblem } from './options.ts';
import { readLeniently } from './read-leniently.ts';

/** Returns every mistake in a section. @param name - for instance `bridge:handles` */
export function sectionProblems(
  name: string,
  section: unknown,
  parse: (section: unknown) => unknown,
): readonly SectionProblem[] {
  const above = `saltbridge:${name}`;
  const { mistakes } = readLeniently(section, parse, (error) => {
    if (!(error instanceof BridgeOptionsError)) throw error;
    // Mistakes in other sections are reported by the checks of those.
    return error.problems
      .filter(({ key }) => key.startsWith(above))
      .map(({ key, problem }) => ({ path: keyPath(key.slice(above.length)), problem }));
  });
  return mistakes.map(({ path: steps, problem }) => ({
    key: `${above}${keyText(steps)}`,
    problem,
  }));
}
