import type { ReloadReport } from '../config/live-config.ts';
import type { MasterConfig } from '../config/options.ts';
import type { AuditTrail } from './record.ts';

/** Taking over another configuration, audited with what changed, or that it was refused. */
export function auditedReload(
  audit: AuditTrail,
  reload: (config: MasterConfig) => Promise<ReloadReport>,
): (config: MasterConfig) => Promise<ReloadReport> {
  const who = { kind: 'local', name: '' } as const;
  return async (config) => {
    try {
      const report = await reload(config);
      const what = report.applied.join(', ');
      audit.append({ who, action: 'policy.reload', what, outcome: 'done' });
      return report;
    } catch (error) {
      const detail = 'refused; what was in force stays';
      audit.append({ who, action: 'policy.reload', outcome: 'failed', detail });
      throw error;
    }
  };
}
