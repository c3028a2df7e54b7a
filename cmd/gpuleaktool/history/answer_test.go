// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// joined writes the samples that a text tells: the GPU, seconds after the first one,
// used/capacity, = where all processes are there, then the instances and the processes.
func joined(t *testing.T, text string) (string, error) {
	t.Helper()
	h, err := historyOf(text, 0)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	amount := func(m gpu.Memory) {
		fmt.Fprintf(&b, "%d", m.Used.V)
		if c := m.Capacity(); c.OK {
			fmt.Fprintf(&b, "/%d", c.V)
		}
	}
	err = h.Each(t.Context(), func(m *Memory, s *gpu.Sample) error {
		fmt.Fprintf(&b, "%s +%g ", m.Labels.String()+m.Info.Name, s.T.Seconds()-1.7e9)
		amount(s.Memory)
		if s.ProcessesComplete {
			b.WriteString(" =")
		}
		for _, in := range s.Instances {
			fmt.Fprintf(&b, " %d:%s:", in.ID, in.Profile)
			amount(in.Memory)
		}
		for _, p := range s.Processes {
			fmt.Fprintf(&b, " %d", p.ID.PID)
			if p.Instance.OK {
				fmt.Fprintf(&b, "@%d", p.Instance.V)
			}
			if p.Started.OK {
				fmt.Fprintf(&b, "(%+g)", time.Duration(p.ID.Start).Seconds()-1.7e9)
			}
			fmt.Fprintf(&b, ":%d", p.Used.V)
			if p.SM.OK {
				fmt.Fprintf(&b, "*%g", p.SM.V)
			}
			b.WriteString(p.Owner.Process + p.Owner.Group())
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String(), err
}

func TestJoin(t *testing.T) {
	const used, process, at = "gpu_memory_used_bytes", "gpu_process_memory_used_bytes", "1700000000"
	for _, c := range []struct{ name, text, want string }{
		{
			"GPUs take turns",
			`gpu_info{gpu="0",name="A"} 1 1700000000` + "\n" + `gpu_info{gpu="1",name="B"} 1 1700000000` + "\n" +
				used + `{gpu="0"} 1 1700000000` + "\n" + used + `{gpu="0"} 2 1700000015` + "\n" + used + `{gpu="0"} 3 1700000060` + "\n" +
				used + `{gpu="1"} 4 1700000005` + "\n" + used + `{gpu="1"} 5 1700000015` + "\n" + used + `{gpu="1"} 6 1700000020` + "\n" +
				process + `{gpu="0",pid="7"} 1 1700000000` + "\n" + process + `{gpu="1",pid="8"} 1 1700000005` + "\n",
			"gpu=0A +0 1 7:1\ngpu=1B +5 4 8:1\ngpu=0A +15 2\ngpu=1B +15 5\ngpu=1B +20 6\ngpu=0A +60 3\n",
		},
		{
			"times, labels of a target, a driver that was updated",
			`gpu_info{gpu="0",name="A",driver_version="1",job="j"} 1 1700000000` + "\n" + `gpu_info{gpu="0",name="A",driver_version="2",job="j"} 1 1700000015` + "\n" +
				used + `{gpu="0",job="j"} 9 1700000000` + "\n" + used + `{gpu="0",job="j"} 10 1700000015` + "\n" + used + `{gpu="0",job="j"} 11 1700000030` + "\n" +
				`gpu_memory_total_bytes{gpu="0",job="j"} 100 1700000000` + "\n" + `gpu_memory_reserved_bytes{gpu="0",job="j"} 5 1700000000` + "\n" +
				`gpu_memory_unattributed_bytes{gpu="0",job="j"} 2 1700000000` + "\n" + `gpu_memory_unattributed_bytes{gpu="0",job="j"} 2 1700000015` + "\n" +
				process + `{gpu="0",pid="7",job="j"} 7 1700000000` + "\n" + process + `{gpu="0",pid="8",pod="p",namespace="n",job="j"} 1 1700000015` + "\n",
			"gpu=0, job=jA +0 9/95 = 7:7\ngpu=0, job=jA +15 10/95 8:1n/p\ngpu=0, job=jA +30 11/95\n",
		},
		{
			"a pid is used again", used + "{gpu=\"0\"} 9 1700000000\n" + used + "{gpu=\"0\"} 9 1700000015\n" + used + "{gpu=\"0\"} 9 1700000030\n" +
				process + "{gpu=\"0\",pid=\"7\"} 1 1700000000\n" + process + "{gpu=\"0\",pid=\"7\"} 1 1700000015\n" + process + "{gpu=\"0\",pid=\"7\"} 1 1700000030\n" +
				"gpu_process_start_time_seconds{gpu=\"0\",pid=\"7\"} 1699999990 1700000000\n" + // the clock was set, then another process
				"gpu_process_start_time_seconds{gpu=\"0\",pid=\"7\"} 1699999996 1700000015\n" + "gpu_process_start_time_seconds{gpu=\"0\",pid=\"7\"} 1700000020 1700000030\n",
			"gpu=0 +0 9 7(-10):1\ngpu=0 +15 9 7(-10):1\ngpu=0 +30 9 7(+20):1\n",
		},
		{
			"compute between the samples is not known", used + "{gpu=\"0\"} 9 1700000000\n" + used + "{gpu=\"0\"} 9 1700000015\n" + used + "{gpu=\"0\"} 9 1700000030\n" +
				process + "{gpu=\"0\",pid=\"7\"} 1 1700000000\n" + process + "{gpu=\"0\",pid=\"7\"} 1 1700000015\n" + process + "{gpu=\"0\",pid=\"7\"} 1 1700000030\n" +
				"gpu_process_sm_utilization_ratio{gpu=\"0\",pid=\"7\"} 0.5 1700000000\ngpu_process_sm_utilization_ratio{gpu=\"0\",pid=\"7\"} 0 1700000015\ngpu_process_sm_utilization_ratio{gpu=\"0\",pid=\"7\"} 0 1700000030\n" +
				"gpu_process_idle_seconds{gpu=\"0\",pid=\"7\"} 0 1700000000\ngpu_process_idle_seconds{gpu=\"0\",pid=\"7\"} 5 1700000015\ngpu_process_idle_seconds{gpu=\"0\",pid=\"7\"} 20 1700000030\n",
			"gpu=0 +0 9 7:1*0.5\ngpu=0 +15 9 7:1\ngpu=0 +30 9 7:1*0\n",
		},
		{
			"slices", used + "{gpu=\"0\"} 9 1700000000\ngpu_mig_memory_used_bytes{gpu=\"0\",gpu_instance=\"11\",profile=\"1g\"} 3 1700000000\n" +
				"gpu_mig_memory_total_bytes{gpu=\"0\",gpu_instance=\"11\",profile=\"1g\"} 30 1700000000\ngpu_mig_memory_used_bytes{gpu=\"0\",gpu_instance=\"2\",profile=\"2g\"} 4 1700000000\n" +
				process + "{gpu=\"0\",gpu_instance=\"11\",pid=\"7\",process=\"train.py\"} 3 1700000000\n",
			"gpu=0 +0 9 2:2g:4 11:1g:3/30 7@11:3train.py\n",
		},
		{
			"labels that were not honored", used + "{gpu=\"0\",pod=\"exporter\",namespace=\"m\"} 9 1700000000\n" +
				process + "{gpu=\"0\",pid=\"7\",pod=\"exporter\",namespace=\"m\",exported_pod=\"p\",exported_namespace=\"n\"} 3 1700000000\n",
			"gpu=0 +0 9 7:3n/p\n",
		},
		{
			"the exporter's pod was replaced twice, and Prometheus repeated the last value for a while", used + "{gpu=\"0\",pod=\"x3\"} 3 1700000060\n" +
				used + "{gpu=\"0\",pod=\"x1\"} 1 1700000000\n" + used + "{gpu=\"0\",pod=\"x1\"} 1 1700000030\n" + used + "{gpu=\"0\",pod=\"x2\"} 2 1700000030\n" +
				process + "{gpu=\"0\",pid=\"7\",pod=\"x1\"} 1 1700000000\n" + process + "{gpu=\"0\",pid=\"7\",pod=\"x2\"} 2 1700000030\n",
			"gpu=0 +0 1 7:1\ngpu=0 +30 2 7:2\ngpu=0 +60 3\n",
		},
		{
			"labels of which some were not honored, and a job that has got the exporter's pod", used + "{gpu=\"0\",pod=\"exporter\"} 9 1700000000\n" +
				process + "{gpu=\"0\",pid=\"7\",pod=\"exporter\",exported_pod=\"p\",namespace=\"n\"} 3 1700000000\n" +
				process + "{gpu=\"0\",pid=\"8\",pod=\"exporter\",slurm_job=\"5\"} 3 1700000000\n",
			"gpu=0 +0 9 7:3n/p 8:3slurm/5\n",
		},
		{
			"an owner that is known late", used + "{gpu=\"0\"} 9 1700000000\n" + used + "{gpu=\"0\"} 9 1700000015\n" +
				process + "{gpu=\"0\",pid=\"7\"} 3 1700000000\n" + process + "{gpu=\"0\",pid=\"7\",namespace=\"n\",pod=\"p\"} 4 1700000015\n" +
				"gpu_process_start_time_seconds{gpu=\"0\",pid=\"7\"} 1699999990 1700000000\n" +
				"gpu_process_start_time_seconds{gpu=\"0\",pid=\"7\",namespace=\"n\",pod=\"p\"} 1699999990 1700000015\n",
			"gpu=0 +0 9 7(-10):3n/p\ngpu=0 +15 9 7(-10):4n/p\n",
		},
		{
			"what cannot be joined is judged alone", used + "{gpu=\"0\"} 9 1700000000\n" + process + "{gpu=\"0\",pid=\"7\"} 3 1700000000\n" +
				process + "{gpu=\"1\",pid=\"7\"} 4 1700000000\n" + process + "{gpu=\"0\"} 5 1700000000\n" + process + "{gpu=\"0\",pid=\"7\",gpu_instance=\"x\"} 6 1700000000\n" +
				process + "{gpu=\"0\",pid=\"8\",process_name=\"x\"} 7 1700000000\n",
			"gpu=0 +0 9 7:3\ngpu=1, pid=7 +0 4\ngpu=0 +0 5\ngpu=0, gpu_instance=x, pid=7 +0 6\ngpu=0, pid=8, process_name=x +0 7\n",
		},
		{
			"two series of one GPU all the time", used + "{gpu=\"0\",pod=\"a\"} 9 1700000000\n" + used + "{gpu=\"0\",pod=\"a\"} 9 1700001000\n" +
				used + "{gpu=\"0\",pod=\"b\"} 8 1700000000\n" + used + "{gpu=\"0\",pod=\"b\"} 8 1700001000\n" + process + "{gpu=\"0\",pid=\"7\"} 3 1700000000\n",
			"gpu=0 +0 9 7:3\ngpu=0, pod=b +0 8\ngpu=0 +1000 9\ngpu=0, pod=b +1000 8\n",
		},

		{"empty labels are none", `a_bytes{x="",y="1"} 5 ` + at, "y=1 +0 5\n"},
		{"series that take turns", "a_bytes{x=\"1\"} 5 1700000000\na_bytes{x=\"2\"} 7 1700000000\na_bytes{x=\"1\"} 6 1700000060\n", "x=1 +0 5\nx=2 +0 7\nx=1 +60 6\n"},
		{"NaN is a gap", "a_bytes 5 1700000000\na_bytes NaN 1700000030\na_bytes 6 1700000060\n", " +0 5\n +60 6\n"},
		{"so are infinities, as a dump of the exporter holds them", "a_bytes +Inf 1700000000\na_bytes -Inf 1700000030\na_bytes 6 1700000060\n", " +60 6\n"},
		{"MiB by name", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 2 " + at, "gpu=0 +0 2097152\n"},
		{
			"totals", "gpu_memory_total_bytes{gpu=\"0\"} 100 1700000000\ngpu_memory_reserved_bytes{gpu=\"0\"} 10 1700000000\n" +
				"gpu_memory_used_bytes{gpu=\"0\"} 5 1700000000\ngpu_memory_total_bytes{gpu=\"0\"} 200 1700000060\ngpu_memory_used_bytes{gpu=\"0\"} 6 1700000090\n",
			"gpu=0 +0 5/90\ngpu=0 +90 6/190\n",
		},
		{
			"two metrics", "gpu_workload_memory_used_bytes{gpu=\"0\"} 5 1700000000\ngpu_process_memory_used_bytes{gpu=\"0\"} 6 1700000000\n",
			"__name__=gpu_workload_memory_used_bytes, gpu=0 +0 5\n__name__=gpu_process_memory_used_bytes, gpu=0 +0 6\n",
		},
		{
			"a workload has no capacity", "gpu_workload_memory_used_bytes{gpu=\"0\",pod=\"p\"} 5 1700000000\ngpu_memory_total_bytes{gpu=\"0\"} 100 1700000000\n" +
				"gpu_memory_used_bytes{gpu=\"0\"} 7 1700000000\n",
			"gpu=0 +0 7/100\ngpu=0, pod=p +0 5\n",
		},
		{
			"a slice has its own capacity", "gpu_mig_memory_used_bytes{gpu=\"0\",gpu_instance=\"1\"} 3 1700000000\n" +
				"gpu_mig_memory_total_bytes{gpu=\"0\",gpu_instance=\"1\"} 20 1700000000\n",
			"gpu=0, gpu_instance=1 +0 3/20\n",
		},
		{
			"what is free makes the capacity, where it was read at once", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1 1700000000\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 2 1700000060\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 4 1700000090\n" +
				"DCGM_FI_DEV_FB_FREE{gpu=\"0\"} 7 1700000060\n",
			"gpu=0 +0 1048576\ngpu=0 +60 2097152/9437184\ngpu=0 +90 4194304/9437184\n",
		},
		{
			"a capacity with the very same labels", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1 1700000000\nDCGM_FI_DEV_FB_USED{gpu=\"0\",pod=\"a\"} 2 1700000060\n" +
				"DCGM_FI_DEV_FB_TOTAL{gpu=\"0\"} 8 1700000000\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\",pod=\"a\"} 9 1700000060\n",
			"gpu=0 +0 1048576/8388608\ngpu=0, pod=a +60 2097152/9437184\n",
		},
		{
			"a capacity that comes after one with other Labels", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1 1700000000\n" +
				"DCGM_FI_DEV_FB_TOTAL{gpu=\"0\",pod=\"a\"} 9 1700000000\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\",pod=\"b\"} 7 1700000000\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\"} 8 1700000000\n",
			"gpu=0 +0 1048576/8388608\n",
		},
		{
			"capacities that are the same", "gpu_memory_used_bytes{gpu=\"0\"} 1 1700000000\n" +
				"gpu_memory_total_bytes{x=\"1\"} 8 1700000000\ngpu_memory_total_bytes{x=\"2\"} 8 1700000060\n",
			"gpu=0 +0 1/8\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := joined(t, c.text); got != c.want || err != nil {
				t.Errorf("got\n%swant\n%s%v", got, c.want, err)
			}
		})
	}
	const wrong = process + "{gpu=\"0\",pid=\"7\"} -3 1700000000\n"
	if _, err := joined(t, used+"{gpu=\"0\"} 9 1700000000\n"+wrong); err == nil || !strings.Contains(err.Error(), process+`{gpu="0",pid="7"} is -3 at 2023-11-14T22:13:20Z: this is no used memory`) {
		t.Errorf("%v", err)
	}
}
