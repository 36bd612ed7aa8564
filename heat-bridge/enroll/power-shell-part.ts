/** Part of user-data for cloudbase-init on Windows. It requires Windows PowerShell 5.1 or later. */

import { toQuotedYaml, type UserDataInput, type UserDataPart } from './user-data-parts.ts';

/**
 * Returns a script that configures and starts the installed minion, and reports failures. If no key
 * pair is given, the script claims the ticket.
 */
export function powerShellPart(plan: UserDataInput): UserDataPart {
  const { config, grains, keys, claims, report } = plan;
  const { bridge } = report;
  if (bridge === undefined)
    throw new TypeError(
      'user-data for cloudbase-init requires the option `enroll: url`, because cloudbase-init cannot use a metadata agent',
    );
  const files = [
    ['$conf\\minion.d\\saltbridge.conf', toQuotedYaml(config)],
    ...(Object.keys(grains).length === 0 ? [] : [['$conf\\grains', toQuotedYaml(grains)]]),
    ...(keys === undefined
      ? []
      : [
          ['$pki\\minion.pem', keys.privatePem],
          ['$pki\\minion.pub', keys.publicPem],
        ]),
  ] as const;
  const writing = files
    .map(([file = '', text = '']) => `  Write-Text "${file}" ${quoteForPowerShell(base64(text))}`)
    .join('\n');
  const content = `#ps1_sysnative
# Makes this machine a minion of saltbridge, once. Reports failures to the bridge.
$ErrorActionPreference = 'Stop'
$url = ${quoteForPowerShell(bridge.url)}
$ticket = ${quoteForPowerShell(report.ticket)}
$id = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String(${quoteForPowerShell(base64(String(config.id)))}))
$conf = Join-Path $env:ProgramData 'Salt Project\\Salt\\conf'
if (-not (Test-Path $conf) -and (Test-Path 'C:\\salt\\conf')) { $conf = 'C:\\salt\\conf' }
$pki = Join-Path $conf 'pki\\minion'
${pinning(bridge.certificatePin)}
function Write-Text([string] $file, [string] $base64) {
  New-Item -ItemType Directory -Force -Path (Split-Path $file) | Out-Null
  [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String($base64))
}

function Send-Body([string] $path, [hashtable] $body) {
  $json = [Text.Encoding]::UTF8.GetBytes((ConvertTo-Json $body -Compress))
  Invoke-RestMethod -Method Post -Uri "$url/$path" -Body $json -ContentType 'application/json' -TimeoutSec 30
}

try {
  if (-not (Get-Service 'salt-minion' -ErrorAction SilentlyContinue)) { throw 'the image has no service salt-minion' }
${writing}
  Restart-Service 'salt-minion'
${claims ? powerShellClaimLines(report.statesInstance) : ''}  if ((Get-Service 'salt-minion').Status -ne 'Running') { throw 'the service salt-minion is not running' }
} catch {
  $reason = "$($_.Exception.Message)"
  if ($reason.Length -gt 400) { $reason = $reason.Substring(0, 400) }
  try { Send-Body 'failure' @{ ticket = $ticket; id = $id; reason = $reason } } catch { }
  exit 1
}
`;
  return { type: 'text/x-shellscript', name: 'saltbridge.ps1', content };
}

/**
 * Returns PowerShell lines that compile a function to check the pinned certificate. A PowerShell
 * script block cannot do this, because it cannot be called from the threads that verify
 * certificates.
 */
function pinning(certificatePin: string): string {
  return `[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
Add-Type -TypeDefinition @'
using System;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
public static class SaltbridgePin {
  public static bool Check(object sender, X509Certificate certificate, X509Chain chain, SslPolicyErrors errors) {
    using (var sha = SHA256.Create()) {
      var digest = BitConverter.ToString(sha.ComputeHash(certificate.GetRawCertData())).Replace("-", "");
      return digest == "${certificatePin}";
    }
  }
  public static void Use() {
    System.Net.ServicePointManager.ServerCertificateValidationCallback = Check;
  }
}
'@
[SaltbridgePin]::Use()
`;
}

function powerShellClaimLines(statesInstance: boolean): string {
  const instance = statesInstance
    ? `  $claim.instance = (Get-ChildItem 'HKLM:\\SOFTWARE\\Cloudbase Solutions\\Cloudbase-Init' | Select-Object -Last 1).PSChildName\n`
    : '';
  return `  $deadline = (Get-Date).AddSeconds(120)
  while (-not (Test-Path "$pki\\minion.pub")) {
    if ((Get-Date) -gt $deadline) { throw 'salt-minion created no key within 120 s' }
    Start-Sleep -Seconds 1
  }
  $lines = Get-Content "$pki\\minion.pub" | Where-Object { $_ -ne '' -and -not $_.StartsWith('-') }
  $text = [Text.Encoding]::ASCII.GetBytes((($lines | ForEach-Object { "$_\`n" }) -join ''))
  $digest = [Security.Cryptography.SHA256]::Create().ComputeHash($text)
  $claim = @{ ticket = $ticket; id = $id; fingerprint = [BitConverter]::ToString($digest).Replace('-', '').ToLower() }
${instance}  $mayBeDone = $false
  foreach ($wait in 1, 2, 5, 10, 30, 30, 60, 60, 60, 0) {
    try {
      Send-Body 'claim' $claim | Out-Null
      break
    } catch {
      $status = 0
      if ($_.Exception.Response) { $status = [int] $_.Exception.Response.StatusCode }
      if ($status -ge 400 -and $status -lt 500 -and $status -ne 429) {
        if ($mayBeDone) { break }
        throw "the claim was rejected ($status)"
      }
      if ($status -eq 0) { $mayBeDone = $true }
      if ($wait -eq 0) { throw 'the bridge does not respond' }
      Start-Sleep -Seconds $wait
    }
  }
`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** Returns a quoted PowerShell string. PowerShell expands nothing in it. */
function quoteForPowerShell(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
