/**
 * Groups of minions that may signal a handle: globs on ids, nodegroups, and projects of enrolments.
 */

import Type, { type Static, type TObject } from 'typebox';
import type { WorkMeter } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';

/** Functions that determine the groups of a minion at the time of its signal. */
export interface GroupMembership {
  /** Whether a nodegroup with this name is defined. */
  readonly hasNodegroup: (nodegroup: string) => boolean;
  /** Whether a minion is in a nodegroup. Returns false if the nodegroup is not defined. */
  readonly isInNodegroup: (minion: string, nodegroup: string) => boolean;
  /** Returns the project of a minion's current enrolment, or `undefined` if the minion has none. */
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

/** Fields that name groups of minions. A minion may signal if it is in one of the groups. */
export const groupFields = {
  /** Globs on minion ids. */
  globs: namesOf('^\\S+$', 253),
  /**
   * Names of nodegroups, as targets use them. Conditions on grains can keep a minion out of the
   * group, but cannot bring it in, because minions can report false grains.
   */
  nodegroups: namesOf('^[^\\s()]+$', 256),
  /** Projects. The group of a project contains the minions that the bridge enrolled for it. */
  projects: namesOf('^.+$', 255),
};

/** Groups of minions; {@link groupFields} documents them. */
export type HandleGroups = Readonly<Static<TObject<typeof groupFields>>>;

/** Whether a handle names groups of minions. The members of a group can change. */
export function isForGroups(handle: HandleGroups): boolean {
  return Object.keys(groupsOf(handle)).length > 0;
}

/** Returns only the fields that name groups. Absent fields are omitted. */
export function groupsOf({ globs, nodegroups, projects }: HandleGroups): HandleGroups {
  return {
    ...(globs === undefined ? {} : { globs: [...globs] }),
    ...(nodegroups === undefined ? {} : { nodegroups: [...nodegroups] }),
    ...(projects === undefined ? {} : { projects: [...projects] }),
  };
}

/** Work to test whether a minion is in a nodegroup, in steps of a `WorkBudget`. */
const stepsPerNodegroup = 1_000;

/**
 * Returns a function that tests whether a minion belongs to one of the groups. Each call of the
 * function uses the current memberships. The group of a project contains only minions that the
 * bridge enrolled for it.
 * @param meter - counts the steps of the tests
 */
export function compileGroups(
  { globs = [], nodegroups = [], projects = [] }: HandleGroups,
  { isInNodegroup, projectOf }: Pick<GroupMembership, 'isInNodegroup' | 'projectOf'>,
  meter?: WorkMeter,
): (minion: string) => boolean {
  const tests = globs.map((glob) => compileGlob(glob, meter));
  const names = new Set(projects);
  return (minion) => {
    const project = names.size === 0 ? undefined : projectOf(minion);
    if (tests.some((test) => test(minion))) return true;
    if (project !== undefined && names.has(project)) return true;
    return nodegroups.some((name) => {
      meter?.spend('a nodegroup', stepsPerNodegroup);
      return isInNodegroup(minion, name);
    });
  };
}
