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
  /** Signal that no rule permits. Published once per burst. */
  signalDenied: (minionId: string): string => `saltbridge/denied/${minionId}`,
  /** Own tag: a reaction was not executed. */
  reaction: (kind: 'dropped' | 'denied'): string => `saltbridge/reaction/${kind}`,
  resourcesRefreshed: (minionId: string): string => `resource/refresh/${minionId}`,
  dataRefreshed: (minionId: string): string => `minion/refresh/${minionId}`,
  /** Own tags: the disk of the store became full, or has free space again. */
  storeFull: 'saltbridge/store/full',
  storeRoom: 'saltbridge/store/room',
  /** Own tags: the disk of the audit log became full, or has free space again. */
  auditFull: 'saltbridge/audit/full',
  auditRoom: 'saltbridge/audit/room',
} as const;
