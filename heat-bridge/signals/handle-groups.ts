/** Groups of minions that a handle is registered for: globs, nodegroups, projects of enrolments. */

import Type, { type Static, type TObject } from 'typebox';
import { compileGlob } from '#template/python/fnmatch.ts';

/** What is known of minions when they signal. */
export interface GroupMembership {
  /** Whether a nodegroup is defined. */
  readonly hasNodegroup: (nodegroup: string) => boolean;
  /** Whether a nodegroup entitles a minion. One that is not defined entitles none. */
  readonly isInNodegroup: (minion: string, nodegroup: string) => boolean;
  /** The project of its enrolment; `undefined`: the bridge did not enrol it, or does not any more. */
  readonly projectOf: (minion: string) => string | undefined;
}

const namesOf = (pattern: string, maxLength: number) =>
  Type.Optional(
    Type.Unsafe<readonly string[]>(
      Type.Array(Type.String({ minLength: 1, maxLength, pattern }), {
        minItems: 1,
        maxItems: 64,
        uniqueItems: true,
      }),
    ),
  );

/** Groups of minions; a minion in one of them may signal. */
export const groupFields = {
  /** Globs on ids. */
  globs: namesOf('^\\S+$', 253),
  /**
   * Names of `nodegroups`, each one word of a target. Conditions on grains in them take rights away
   * and give none.
   */
  nodegroups: namesOf('^[^\\s()]+$', 256),
  /** Projects that the bridge enrolled minions for. */
  projects: namesOf('^.+$', 255),
};

/** Groups of minions; {@link groupFields} documents them. */
export type HandleGroups = Readonly<Static<TObject<typeof groupFields>>>;

/** The groups alone, without those that are not there. */
export function groupsOf({ globs, nodegroups, projects }: HandleGroups): HandleGroups {
  return {
    ...(globs === undefined ? {} : { globs: [...globs] }),
    ...(nodegroups === undefined ? {} : { nodegroups: [...nodegroups] }),
    ...(projects === undefined ? {} : { projects: [...projects] }),
  };
}

/** Whether minions are in any of the groups, each time as things are then. */
export function compileGroups(
  { globs = [], nodegroups = [], projects = [] }: HandleGroups,
  { isInNodegroup, projectOf }: Pick<GroupMembership, 'isInNodegroup' | 'projectOf'>,
): (minion: string) => boolean {
  const tests = globs.map(compileGlob);
  const names = new Set(projects);
  return (minion) => {
    if (tests.some((test) => test(minion))) return true;
    const project = names.size === 0 ? undefined : projectOf(minion);
    if (project !== undefined && names.has(project)) return true;
    return nodegroups.some((name) => isInNodegroup(minion, name));
  };
}
