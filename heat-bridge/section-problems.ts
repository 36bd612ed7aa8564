import { BridgeOptionsError, keyPath, keyText, type SectionProblem } from './options.ts';
import { readLeniently } from './read-leniently.ts';

/**
 * Returns every error in a section.
 * @param name - name of the section, for example `bridge:handles`
 */
export function sectionProblems(
  name: string,
  section: unknown,
  parse: (section: unknown) => unknown,
): readonly SectionProblem[] {
  const above = `saltbridge:${name}`;
  const { mistakes } = readLeniently(section, parse, (error) => {
    if (!(error instanceof BridgeOptionsError)) throw error;
    // Errors in other sections are reported by the checks of those.
    return error.problems
      .filter(({ key }) => key.startsWith(above))
      .map(({ key, problem }) => ({ path: keyPath(key.slice(above.length)), problem }));
  });
  return mistakes.map(({ path: steps, problem }) => ({
    key: `${above}${keyText(steps)}`,
    problem,
  }));
}
