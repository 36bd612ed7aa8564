export { actorOf } from './actor-of.ts';
export { AuditBursts } from './audit-bursts.ts';
export { auditOf } from './audit-files.ts';
export { type AuditEntry, type AuditRecord, type AuditTrail, named } from './audit-record.ts';
export { audited, auditedCall } from './audited.ts';
export { type Audit, auditMaster, createAudit } from './create-audit.ts';
export { LoginAudit } from './login-audit.ts';
export { type AuditFilter, readAuditLog } from './read-audit-log.ts';
export {
  type AuditReport,
  verifyAudit,
  verifyAuditLog,
  verifyCopiedLogs,
} from './verify.ts';
