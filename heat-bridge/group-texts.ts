import type { HandleGroups } from './signals/handle-groups.ts';

/**
 * Returns the groups of a handle as texts, for example `*.example.org`, `N@db` and `project p1`.
 */
export function groupTexts({ globs = [], nodegroups = [], projects = [] }: HandleGroups): string[] {
  return [
    ...globs,
    ...nodegroups.map((name) => `N@${name}`),
    ...projects.map((name) => `project ${name}`),
  ];
}
