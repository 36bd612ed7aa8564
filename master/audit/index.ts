export { actorOf } from './actor-of.ts';
export { AuditBursts } from './audit-bursts.ts';
export { auditOf, minionActor } from './audit-files.ts';
export { type AuditEntry, type AuditRecord, type AuditTrail, named } from './audit-record.ts';
export {
  type Audit,
  audited,
  auditedCall,
  auditMaster,
  createAudit,
  LoginAudit,
} from './audited.ts';
export { RuledDecisions } from './ruled-decisions.ts';
export {
  type AuditFilter,
  type AuditProblem,
  type AuditReport,
  readAuditLog,
  verifyAudit,
  verifyAuditLog,
  verifyCopiedLogs,
} from './verify.ts';
