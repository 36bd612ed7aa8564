import type { HandleGroups } from './signals/handle-groups.ts';

/** `*.example.org, N@db, project p1`: for people, and for the audit log. */
export function groupTexts({ globs = [], nodegroups = [], projects = [] }: HandleGroups): string[] {
  return [
    ...globs,
    ...nodegroups.map((name) => `N@${name}`),
    ...projects.map((name) => `project ${name}`),
  ];
}
