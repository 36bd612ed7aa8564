import type { ReloadReport } from '../config/live-config.ts';
import type { MasterConfig } from '../config/options.ts';
import type { AuditTrail } from './record.ts';
import { type AuditRequester, auditOf } from './requester.ts';

/** Taking over another configuration, audited with what changed, or that it was refused. */
export function auditedReload(
  audit: AuditTrail,
  reload: (config: MasterConfig) => Promise<ReloadReport>,
): (config: MasterConfig, by?: AuditRequester) => Promise<ReloadReport> {
  return async (config, by) => {
    const entry = { ...auditOf(by, ''), action: 'policy.reload' };
    try {
      const report = await reload(config);
      const what = report.applied.join(', ');
      audit.append({ ...entry, what, outcome: 'done' });
      return report;
    } catch (error) {
      const detail = 'refused; what was in force stays';
      audit.append({ ...entry, outcome: 'failed', detail });
      throw error;
    }
  };
}
