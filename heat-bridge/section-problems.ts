import { BridgeOptionsError, keyPath, keyText, type SectionProblem } from './options.ts';
import { readLeniently } from './read-leniently.ts';

/**
 * Returns all errors that a parser finds in a section.
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
    // Ignore errors in other sections, because other checks report them.
    return error.problems
      .filter(({ key }) => key.startsWith(above))
      .map(({ key, problem }) => ({ path: keyPath(key.slice(above.length)), problem }));
  });
  return mistakes.map(({ path: steps, problem }) => ({
    key: `${above}${keyText(steps)}`,
    problem,
  }));
}
