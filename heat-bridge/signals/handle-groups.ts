/**
 * Groups of minions for which a handle is registered: globs, nodegroups and projects of
 * enrolments.
 */

import Type, { type Static, type TObject } from 'typebox';
import { compileGlob } from '#template/python/fnmatch.ts';
import { projectOfOwner } from '../owner-name.ts';

/** Lookups of a minion's groups when it signals. */
export interface GroupMembership {
  /** Whether a nodegroup is defined. */
  readonly hasNodegroup: (nodegroup: string) => boolean;
  /** Whether a minion is in a nodegroup. Returns false for an undefined nodegroup. */
  readonly isInNodegroup: (minion: string, nodegroup: string) => boolean;
  /** Returns the project of a minion's enrolment, or `undefined` if it has no current enrolment. */
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
  /** Globs on minion ids. */
  globs: namesOf('^\\S+$', 253),
  /**
   * Names of `nodegroups`, each one word of a target. Conditions on grains in them can only remove
   * permissions, never grant them.
   */
  nodegroups: namesOf('^[^\\s()]+$', 256),
  /** Projects for which the bridge enrolled minions. */
  projects: namesOf('^.+$', 255),
};

/** Groups of minions; {@link groupFields} documents them. */
export type HandleGroups = Readonly<Static<TObject<typeof groupFields>>>;

/** Returns only the group fields that are present. */
export function groupsOf({ globs, nodegroups, projects }: HandleGroups): HandleGroups {
  return {
    ...(globs === undefined ? {} : { globs: [...globs] }),
    ...(nodegroups === undefined ? {} : { nodegroups: [...nodegroups] }),
    ...(projects === undefined ? {} : { projects: [...projects] }),
  };
}

/**
 * Compiles a test whether a minion is in any of the groups. The test reads current memberships on
 * each call. The groups of a project contain its own guests only.
 */
export function compileGroups(
  { globs = [], nodegroups = [], projects = [], owner = '' }: HandleGroups & { owner?: string },
  { isInNodegroup, projectOf }: Pick<GroupMembership, 'isInNodegroup' | 'projectOf'>,
): (minion: string) => boolean {
  const tests = globs.map((glob) => compileGlob(glob));
  const names = new Set(projects);
  const own = projectOfOwner(owner);
  return (minion) => {
    const project = names.size === 0 && own === undefined ? undefined : projectOf(minion);
    if (own !== undefined && project !== own) return false;
    if (tests.some((test) => test(minion))) return true;
    if (project !== undefined && names.has(project)) return true;
    return nodegroups.some((name) => isInNodegroup(minion, name));
  };
}
