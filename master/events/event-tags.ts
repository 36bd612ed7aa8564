/** Salt's event tags [WIRE 14.2], and ours, which begin with `saltbridge/`. */

export const tags = {
  auth: 'salt/auth',
  key: 'salt/key',
  rotation: 'key',
  jobNew: (jid: string): string => `salt/job/${jid}/new`,
  jobPublish: (jid: string): string => `salt/job/${jid}/publish`,
  jobReturn: (jid: string, minionId: string): string => `salt/job/${jid}/ret/${minionId}`,
  stateError: (jid: string, minionId: string, fun: string): string =>
    `salt/job/${jid}/sub/${minionId}/error/${fun}`,
  presencePresent: 'salt/presence/present',
  presenceChange: 'salt/presence/change',
  /** A signal that no rule permits: told once a burst. */
  signalDenied: (minionId: string): string => `saltbridge/denied/${minionId}`,
  /** Ours: what a reaction did not do. */
  reaction: (kind: 'dropped' | 'denied'): string => `saltbridge/reaction/${kind}`,
  resourcesRefreshed: (minionId: string): string => `resource/refresh/${minionId}`,
  dataRefreshed: (minionId: string): string => `minion/refresh/${minionId}`,
  /** Ours: the disk of the store was found full; there is room again. */
  storeFull: 'saltbridge/store/full',
  storeRoom: 'saltbridge/store/room',
  /** Ours: the audit log finds no room; it finds some again. */
  auditFull: 'saltbridge/audit/full',
  auditRoom: 'saltbridge/audit/room',
} as const;
