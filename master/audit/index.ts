export { actorOf } from './actor-of.ts';
export {
  AuditBursts,
  type AuditEntry,
  type AuditRecord,
  type AuditTrail,
  auditOf,
  minionActor,
  named,
  RuledDecisions,
} from './audit-log.ts';
export {
  type Audit,
  audited,
  auditedCall,
  auditMaster,
  createAudit,
  LoginAudit,
} from './audited.ts';
export {
  type AuditFilter,
  type AuditProblem,
  type AuditReport,
  readAuditLog,
  verifyAudit,
  verifyAuditLog,
  verifyCopiedLogs,
} from './verify.ts';
